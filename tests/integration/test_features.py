"""The API server rejects planned features, and a job that an earlier release has stored with one stays writable."""

import copy
from collections.abc import Iterator

import pytest
from support.api import Api, Json
from support.factories import manifest
from support.polling import wait_for

from tfdist.api.crd import crd
from tfdist.api.features import PLANNED

pytestmark = pytest.mark.integration

GROUP = "earlier.tfdist.dev"
"""A group of its own, so that the definition can change without disturbing other tests."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MESSAGE = PLANNED[0].message


def definition(*, strict: bool) -> Json:
    made = copy.deepcopy(crd())
    made["metadata"]["name"] = f"tfdistjobs.{GROUP}"
    made["spec"]["group"] = GROUP
    made["spec"]["names"] |= {"shortNames": [], "categories": []}
    root = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    if not strict:
        messages = {feature.message for feature in PLANNED}
        rules = root["x-kubernetes-validations"]
        root["x-kubernetes-validations"] = [rule for rule in rules if rule["message"] not in messages]
    return made


@pytest.fixture
def jobs(api: Api, namespace: str) -> Iterator[str]:
    """The path of the jobs of a definition from before the feature was rejected."""
    api.apply(definition(strict=False), DEFINITIONS)
    path = f"/apis/{GROUP}/v1/namespaces/{namespace}/tfdistjobs"
    wait_for("the earlier definition", lambda: api.send("GET", path).ok)
    yield path
    api.do("DELETE", f"{DEFINITIONS}/tfdistjobs.{GROUP}")


def job(namespace: str, name: str, **spec: Json) -> Json:
    return manifest(name, namespace, **spec) | {"apiVersion": f"{GROUP}/v1"}


def rejection(api: Api, jobs: str, manifest: Json) -> str:
    """Return the message with which the API server rejects a job; "" if it accepts it."""
    answer = api.send("POST", jobs, manifest, dryRun="All")
    return str(answer.json()["message"]) if answer.status_code == 422 else ""


def test_a_stored_job_with_a_planned_feature_is_readable_and_writable(api: Api, namespace: str, jobs: str) -> None:
    # given a job that an earlier release has stored with a feature that this one rejects
    stored, plain = job(namespace, "stored", elastic={"minWorkers": 1}), job(namespace, "plain")
    wait_for("the stored job", lambda: api.send("POST", jobs, stored).status_code in {201, 409})
    api.do("POST", jobs, plain)

    # when the definition becomes that of this release
    api.apply(definition(strict=True), DEFINITIONS)
    new = job(namespace, "new", elastic={"minWorkers": 1})
    message = wait_for("the rule", lambda: rejection(api, jobs, new))

    # then a new job with the feature is rejected with the message of the table, and the stored one is as it was
    assert f"spec.elastic: Forbidden: {MESSAGE}" in message
    assert api.do("GET", f"{jobs}/stored")["spec"]["elastic"] == {"minWorkers": 1}

    # and the controller can report it, people can label it and remove the feature
    api.do("PATCH", f"{jobs}/stored/status", {"status": {"phase": "Invalid"}}, "merge-patch")
    api.do("PATCH", f"{jobs}/stored", {"metadata": {"finalizers": ["example.com/kept"]}}, "merge-patch")
    api.do("PATCH", f"{jobs}/stored", {"metadata": {"finalizers": []}}, "merge-patch")
    api.do("PATCH", f"{jobs}/stored", {"spec": {"elastic": None}}, "merge-patch")

    # and no user can add it to a job, before its first status or after
    for status in ({}, {"phase": "Pending"}):
        api.do("PATCH", f"{jobs}/plain/status", {"status": status}, "merge-patch")
        rejected = api.send("PATCH", f"{jobs}/plain", {"spec": {"elastic": {"minWorkers": 1}}}, "merge-patch")
        assert rejected.status_code == 422
        assert MESSAGE in rejected.json()["message"]
