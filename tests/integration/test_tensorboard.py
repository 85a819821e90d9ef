"""A job's TensorBoard on a real API server: created with the pods, removed on demand, and without effect on them."""

import pytest
from support.api import JOBS, Api, Json
from support.factories import manifest
from support.polling import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller")]

BOARD = {"logDirectory": "/logs"}
OF_BOARD = {
    "apps/v1": "deployments",
    "networking.k8s.io/v1": "networkpolicies",
    "v1": "services",
}


def new_job(api: Api, namespace: str, **spec: object) -> None:
    made = manifest("shown", namespace, tensorBoard=BOARD, **spec)
    del made["metadata"]["uid"]
    api.create_job(made)


def objects(api: Api, namespace: str) -> list[Json]:
    """Return what there is of the TensorBoard."""
    found = []
    for version, plural in OF_BOARD.items():
        group = f"/apis/{version}" if "/" in version else f"/api/{version}"
        answer = api.send("GET", f"{group}/namespaces/{namespace}/{plural}/shown-tensorboard")
        found += [answer.json()] if answer.ok else []
    return found


def test_it_belongs_to_the_job_and_goes_with_the_field(api: Api, namespace: str) -> None:
    new_job(api, namespace)
    wait_for("the TensorBoard", lambda: len(objects(api, namespace)) == 3)
    uid = api.job(namespace, "shown")["metadata"]["uid"]
    assert {o["metadata"]["ownerReferences"][0]["uid"] for o in objects(api, namespace)} == {uid}
    assert api.job(namespace, "shown")["status"]["tensorBoard"] == {"service": "shown-tensorboard"}
    wait_for("the pods of the job alone", lambda: len(api.job(namespace, "shown")["status"].get("gangs", {})) == 1)

    api.do("PATCH", f"{JOBS.format(ns=namespace)}/shown", {"spec": {"tensorBoard": None}}, "merge-patch")
    wait_for("its end", lambda: not objects(api, namespace))
    assert "tensorBoard" not in api.job(namespace, "shown")["status"]


@pytest.mark.long
def test_a_rejected_one_is_reported_and_the_job_runs(api: Api, namespace: str) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"count/deployments.apps": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.do("POST", path, quota)
    wait_for("the quota to count", lambda: api.do("GET", f"{path}/none").get("status", {}).get("hard"))
    new_job(api, namespace)
    wait_for("it to run", lambda: api.job(namespace, "shown").get("status", {}).get("phase") == "Running")

    def notes() -> list[str]:
        events = api.do("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
        return [event["note"] for event in events if event["reason"] == "TensorBoardRejected"]

    (note,) = wait_for("the event", notes)
    assert note.startswith("spec.tensorBoard: rejected by the API server: ")
    assert "exceeded quota" in note

    api.do("DELETE", f"{path}/none")
    wait_for("the TensorBoard, once there is room", lambda: len(objects(api, namespace)) == 3, seconds=90)
