"""A specification that changes while its pods run, against a real API server, with controllers that come and go."""

import pathlib
from typing import Any

import pytest
from support.api import JOBS, PODS, Api, Json
from support.controller import controller as run_controller
from support.factories import manifest, termination_message
from support.polling import wait_for

pytestmark = pytest.mark.integration

INVALID: Json = {"volumeMounts": [{"name": "absent", "mountPath": "/x"}]}
"""An error that only the controller finds."""


def create(api: Api, namespace: str, name: str, **spec: Any) -> None:
    made = manifest(name, namespace, image="team/train:1", **spec)
    del made["metadata"]["uid"]
    api.create_job(made)


def change(api: Api, namespace: str, name: str, spec: Json | None = None, **metadata: Json) -> None:
    patch = {"metadata": metadata} | ({"spec": spec} if spec else {})
    api.do("PATCH", f"{JOBS.format(ns=namespace)}/{name}", patch, "merge-patch")


def pods_of(api: Api, namespace: str, name: str) -> dict[str, Json]:
    """Return the pods of a job that are not being deleted, by name."""
    found = (p for p in api.pods(namespace) if p["metadata"]["labels"]["tfdist.dev/job"] == name)
    return {p["metadata"]["name"]: p for p in found if "deletionTimestamp" not in p["metadata"]}


def images(api: Api, namespace: str, name: str) -> set[str]:
    return {p["spec"]["containers"][0]["image"] for p in pods_of(api, namespace, name).values()}


def awaited(api: Api, namespace: str, name: str, **wanted: Any) -> Json:
    """Return the status once its fields are as wanted; `Condition` stands for the reason of a true condition."""

    def found() -> Json:
        status: Json = api.job(namespace, name).get("status", {})
        reasons = {c["type"]: c["reason"] for c in status.get("conditions", ()) if c["status"] == "True"}
        known = status | reasons
        return status if all(known.get(k) == v for k, v in wanted.items()) else {}

    return wait_for(f"{name}: {wanted}", found)


@pytest.mark.usefixtures("controller")
def test_an_edit_waits_for_the_next_attempt_a_request_or_a_strategy_and_an_error_stops_nothing(
    api: Api, namespace: str
) -> None:
    for name in ("requested", "suspended", "succeeds"):
        create(api, namespace, name)
    create(api, namespace, "at-once", runPolicy={"updateStrategy": "Restart"})
    for name in ("requested", "suspended", "succeeds", "at-once"):
        awaited(api, namespace, name, phase="Running")

    change(api, namespace, "at-once", {"image": "team/train:2"})
    change(api, namespace, "requested", {"image": "team/train:2"})
    change(api, namespace, "suspended", INVALID | {"runPolicy": {"suspend": True}})
    change(api, namespace, "succeeds", INVALID)

    awaited(api, namespace, "at-once", attempt=1, phase="Running")
    assert images(api, namespace, "at-once") == {"team/train:2"}

    status = awaited(api, namespace, "requested", observedGeneration=2)
    assert "running pods use the specification of generation 1" in status["summary"]["message"]
    assert images(api, namespace, "requested") == {"team/train:1"}
    change(api, namespace, "requested", annotations={"tfdist.dev/restartedAt": "2030-01-02T03:04:05Z"})
    awaited(api, namespace, "requested", attempt=1, phase="Running", restartedAt="2030-01-02T03:04:05Z")
    assert images(api, namespace, "requested") == {"team/train:2"}

    awaited(api, namespace, "suspended", phase="Suspended", Invalid="InvalidUpdate")
    assert pods_of(api, namespace, "suspended") == {}

    status = awaited(api, namespace, "succeeds", Invalid="InvalidUpdate")
    assert status["phase"] == "Running"
    for name in pods_of(api, namespace, "succeeds"):
        api.end_container(namespace, name, 0, termination_message(step=10))
    awaited(api, namespace, "succeeds", phase="Succeeded")


PS: Json = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "command": ["run"]}
"""A strategy in which a worker is replaced alone."""


def test_a_replacement_has_the_specification_of_its_attempt_whichever_controller_makes_it(
    api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    path = PODS.format(ns=namespace)
    with run_controller(api, tmp_path) as first:
        for name in ("seen", "unseen"):
            create(api, namespace, name, **PS)
            awaited(api, namespace, name, phase="Running")
        change(api, namespace, "seen", {"image": "team/train:2"})
        awaited(api, namespace, "seen", observedGeneration=2)
        first.process.kill()
        first.process.wait()
    change(api, namespace, "unseen", {"image": "team/train:2"})
    for name in ("seen", "unseen"):
        api.do("DELETE", f"{path}/{name}-worker-1", gracePeriodSeconds="0")
    with run_controller(api, tmp_path):
        wait_for("the replacement", lambda: "seen-worker-1-r1" in pods_of(api, namespace, "seen"))
        assert images(api, namespace, "seen") == {"team/train:1"}
        awaited(api, namespace, "unseen", attempt=1, phase="Running")
        assert images(api, namespace, "unseen") == {"team/train:2"}
