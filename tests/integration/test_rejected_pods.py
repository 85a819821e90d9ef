"""Jobs that the API server stores and that can get no pods: each reports why at once, and affects no other job."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support import controller as controllers
from support.api import JOBS, PODS, Api, Json
from support.factories import manifest
from support.polling import wait_for

from tfdist_operator.kube.json_bodies import decode

pytestmark = pytest.mark.integration

LEVELS = 1100
DEEP: Json = {"DEEP": "DEEP"}
"""Stands for an object that is nested too deep for the encoders of this test."""
MAIN = {"name": "tensorflow"}
EXISTS: Json = {"containers": [MAIN], "tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}
ALIAS: Json = {"containers": [MAIN], "hostAliases": [{"ip": "nowhere", "hostnames": ["a"]}]}


SPECS: dict[str, Json] = {
    "deep-config": {"training": {"program": "image_classification", "config": DEEP}},
    "deep-template": {"template": {"spec": {"affinity": DEEP}}},
    "exists": {"template": {"spec": EXISTS}},
    "alias": {"template": {"spec": ALIAS}},
    "taken": {},
    "good": {},
}


@dataclass(frozen=True)
class ControlledJobs:
    """The jobs of `SPECS` in a namespace of their own, with one controller."""

    api: Api
    namespace: str
    controller: controllers.Controller

    def status(self, name: str) -> Json:
        """Return the status of a job, which may be deeper than a decoder of this test reads."""
        answer = self.api.send("GET", f"{JOBS.format(ns=self.namespace)}/{name}")
        return dict(decode(answer.content).get("status", {}))

    def await_message(self, name: str, kind: str, reason: str) -> str:
        """Return the message of a condition once it has that reason."""

        def message() -> str:
            stored = [c for c in self.status(name).get("conditions", ()) if c["type"] == kind]
            return stored[0]["message"] if stored and stored[0]["reason"] == reason else ""

        return wait_for(f"{kind} of {name} for {reason}", message)


def deep(text: str) -> str:
    """Return a manifest with the deep object in its place."""
    return text.replace(json.dumps(DEEP), '{"a":' * LEVELS + "1" + "}" * LEVELS)


def place(api: Api, namespace: str, name: str, spec: Json) -> None:
    document = manifest(name, namespace, **spec)
    document["metadata"].pop("uid")
    answer = api.post_text(JOBS.format(ns=namespace), deep(json.dumps(document)))
    assert answer.ok, answer.text[:1000]


@pytest.fixture(scope="module")
def jobs(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlledJobs]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    # It waits for no node: kwok deletes pods by their names, and might delete the job's pod after this one.
    spec = {"containers": [{"name": "web", "image": "web"}], "schedulingGates": [{"name": "example.com/wait"}]}
    theirs = {"metadata": {"name": "taken-worker-0"}, "spec": spec}
    wait_for("the namespace's ServiceAccount", lambda: api.send("POST", PODS.format(ns=name), theirs).ok)
    with controllers.controller(api, tmp_path_factory.mktemp("controller")) as running:
        for job, spec in SPECS.items():
            place(api, name, job, spec)
        yield ControlledJobs(api, name, running)
        assert running.get("/healthz").ok
    api.do("DELETE", f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("name", ["deep-config", "deep-template"])
def test_a_job_nested_1100_levels_deep_is_invalid_and_nothing_else_happens(jobs: ControlledJobs, name: str) -> None:
    assert "nested deeper than 64 levels" in jobs.await_message(name, "Invalid", "InvalidSpec")
    assert jobs.status(name)["phase"] == "Invalid"
    assert jobs.controller.get("/healthz").ok


@pytest.mark.parametrize(("name", "words"), [("exists", "value must be empty"), ("alias", "valid IP")])
def test_a_pod_that_the_api_server_rejects_makes_the_job_invalid_and_is_not_sent_again(
    jobs: ControlledJobs, name: str, words: str
) -> None:
    assert words in jobs.await_message(name, "Invalid", "PodRejected")
    assert jobs.status(name)["phase"] == "Invalid"
    sent = jobs.controller.api_requests()["POST", "pods", "422"]
    assert 2 <= sent <= 4, "one for each job, and one more where it was written while it was reconciled"


def test_a_pod_name_that_exists_is_reported_with_its_owner_and_the_pod_is_never_adopted(jobs: ControlledJobs) -> None:
    message = jobs.await_message("taken", "PodsReady", "FailedCreate")
    assert f"pod {jobs.namespace}/taken-worker-0 is there and belongs to nothing that manages it" in message
    jobs.api.do("DELETE", f"{PODS.format(ns=jobs.namespace)}/taken-worker-0", gracePeriodSeconds="0")
    wait_for("the job's own pods", lambda: pods_of(jobs, "taken") == ["taken-worker-0", "taken-worker-1"])


def test_a_valid_job_in_the_same_namespace_gets_its_pods(jobs: ControlledJobs) -> None:
    wait_for("its pods", lambda: pods_of(jobs, "good") == ["good-worker-0", "good-worker-1"])
    assert jobs.status("good")["phase"] in {"Starting", "Running"}


def pods_of(jobs: ControlledJobs, job: str) -> list[str]:
    pods = jobs.api.pods(jobs.namespace)
    return [p["metadata"]["name"] for p in pods if p["metadata"].get("labels", {}).get("tfdist.dev/job") == job]


def test_requests_name_the_controller(jobs: ControlledJobs) -> None:
    wait_for("its pods", lambda: pods_of(jobs, "good"))
    (pod, *_) = [p for p in jobs.api.pods(jobs.namespace) if p["metadata"]["name"] == "good-worker-0"]
    assert "tfdist-controller" in {entry["manager"] for entry in pod["metadata"]["managedFields"]}
