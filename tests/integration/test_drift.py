"""What people do to a running job's objects on a real API server, and that it is undone within seconds."""

from typing import Any

import pytest
from support.api import JOBS, Api, Json
from support.factories import manifest
from support.polling import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller")]

OBJECTS = {
    "Service": ("/api/v1", "services", "shown"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies", "shown"),
    "Deployment": ("/apis/apps/v1", "deployments", "shown-tensorboard"),
}
EDITS: dict[str, Json] = {
    "Service": {"selector": {"app": "theirs"}},
    "NetworkPolicy": {"ingress": [{}]},
    "Deployment": {"replicas": 0},
}


def path_of(kind: str, namespace: str) -> str:
    group, plural, name = OBJECTS[kind]
    return f"{group}/namespaces/{namespace}/{plural}/{name}"


def found(api: Api, kind: str, namespace: str) -> Json:
    answer = api.send("GET", path_of(kind, namespace))
    return answer.json() if answer.ok else {}


def run_a_job(api: Api, namespace: str) -> dict[str, Json]:
    """Create a job with a TensorBoard and return its objects once it runs."""
    made = manifest("shown", namespace, tensorBoard={"logDirectory": "/logs"})
    del made["metadata"]["uid"]
    api.create_job(made)
    wait_for("it to run", lambda: api.job(namespace, "shown").get("status", {}).get("phase") == "Running")
    wait_for("its objects", lambda: all(found(api, kind, namespace) for kind in OBJECTS))
    return {kind: found(api, kind, namespace) for kind in OBJECTS}


def replicas(api: Api, namespace: str) -> list[str]:
    """Return the UIDs of the replicas' pods; that of the TensorBoard is none of them."""
    pods = [pod["metadata"] for pod in api.pods(namespace)]
    return [meta["uid"] for meta in pods if "tfdist.dev/role" in meta["labels"]]


def notes(api: Api, namespace: str) -> list[str]:
    events = api.do("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [event["note"] for event in events if event["reason"] == "Repaired"]


def test_what_is_deleted_or_changed_by_hand_is_back_in_seconds_and_a_disabled_policy_goes(
    api: Api, namespace: str
) -> None:
    # given a running job with a TensorBoard
    before = run_a_job(api, namespace)
    pods = replicas(api, namespace)
    # when a user deletes its objects
    for kind in OBJECTS:
        api.do("DELETE", path_of(kind, namespace))

    # then they are created again
    def created_again(kind: str) -> bool:
        now: Any = found(api, kind, namespace)
        return bool(now) and now["metadata"]["uid"] != before[kind]["metadata"]["uid"]

    wait_for("them to be back", lambda: all(map(created_again, OBJECTS)), seconds=15)
    wait_for("the events", lambda: len(notes(api, namespace)) == len(OBJECTS))

    # when a user changes them
    for kind, edit in EDITS.items():
        api.do("PATCH", path_of(kind, namespace), {"spec": edit}, "merge-patch")

    # then they are changed back
    def as_before(kind: str) -> bool:
        now = found(api, kind, namespace).get("spec", {})
        return all(now.get(field) == before[kind]["spec"].get(field) for field in EDITS[kind])

    wait_for("them to be as before", lambda: all(map(as_before, OBJECTS)), seconds=30)

    # and when the user opens the job to all, its policies go, and nothing else
    edit = {"spec": {"networkPolicy": "Disabled"}}
    api.do("PATCH", f"{JOBS.format(ns=namespace)}/shown", edit, "merge-patch")
    policies = f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    wait_for("the policies to go", lambda: not api.do("GET", policies)["items"], seconds=15)
    assert found(api, "Service", namespace)
    assert replicas(api, namespace) == pods
