"""The life of a job against a real API server, with the controller under the role that is shipped."""

import base64
import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.api import JOBS, PODS, Api, Json
from support.controller import Controller
from support.controller import controller as run_controller
from support.factories import EVALUATED, RESULT, manifest, termination_message
from support.polling import wait_for

pytestmark = pytest.mark.integration


SHARED = {"directory": "/ckpt/{name}", "volume": {"nfs": {"server": "192.0.2.1", "path": "/"}}}
"""A checkpoint volume that no scheduler has to bind; the pods of fake nodes mount nothing."""


def new_job(api: Api, namespace: str, name: str = "fashion", **spec: Any) -> Json:
    made = manifest(name, namespace, **spec)
    del made["metadata"]["uid"]
    return api.create_job(made)


@pytest.fixture
def alone(api: Api, namespace: str, tmp_path: pathlib.Path) -> Iterator[Controller]:
    """Run a controller for the test's namespace alone, so that the requests it counts are the test's.

    It writes no counters: how many such writes a job costs depends on how long the fake nodes take.
    """
    with run_controller(api, tmp_path, TFDIST_NAMESPACE=namespace, TFDIST_PROGRESS_WRITE_SECONDS="3600") as running:
        yield running


def await_phase(api: Api, namespace: str, phase: str, name: str = "fashion") -> Json:
    def status() -> Json | None:
        job = api.job(namespace, name)
        return job if job.get("status", {}).get("phase") == phase else None

    found = wait_for(f"phase {phase} of {name}", status)
    assert found is not None
    return found


def end_gang(api: Api, namespace: str, role: str, message: str = "") -> None:
    for pod in api.pods(namespace):
        if pod["metadata"]["labels"]["tfdist.dev/role"] == role:
            api.end_container(namespace, pod["metadata"]["name"], 0, message)


@pytest.mark.usefixtures("controller")
def test_a_job_trains_then_evaluates_and_reports_the_result(api: Api, namespace: str) -> None:
    new_job(api, namespace, **EVALUATED | {"checkpoint": SHARED})
    await_phase(api, namespace, "Running")
    end_gang(api, namespace, "worker", termination_message(step=10))
    wait_for("the evaluation gang", lambda: len(api.pods(namespace)) == 4)
    end_gang(api, namespace, "evaluation", termination_message(evaluation=RESULT))
    status = await_phase(api, namespace, "Succeeded")["status"]
    assert status["evaluation"]["final"] == RESULT
    assert status["progress"]["step"] == 10
    assert status["summary"]["metric"] == "accuracy=0.9000"


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_job_of_n_replicas_costs_at_most_n_plus_9_requests(
    api: Api, namespace: str, alone: Controller, workers: int
) -> None:
    new_job(api, namespace, worker={"replicas": workers}, scheduling={"gang": "None"})
    await_phase(api, namespace, "Running")
    end_gang(api, namespace, "worker", termination_message(step=10))
    await_phase(api, namespace, "Succeeded")
    wait_for("the last event", lambda: "Succeeded" in reasons(api, namespace))
    made = alone.requests_made()
    assert sum(made.values()) <= workers + 9, made


def test_a_gang_of_kubernetes_costs_two_more_requests(api: Api, namespace: str, alone: Controller) -> None:
    new_job(api, namespace, scheduling={"gang": "Native"})
    await_phase(api, namespace, "Running")
    end_gang(api, namespace, "worker", termination_message(step=10))
    await_phase(api, namespace, "Succeeded")
    wait_for("the last event", lambda: "Succeeded" in reasons(api, namespace))
    made = alone.requests_made()
    assert sum(made.values()) <= 2 + 11, made


def test_with_evaluation_its_replicas_count_as_replicas_and_its_start_and_run_are_two_more_requests(
    api: Api, namespace: str, alone: Controller
) -> None:
    new_job(api, namespace, **EVALUATED | {"checkpoint": SHARED}, scheduling={"gang": "None"})
    await_phase(api, namespace, "Running")
    end_gang(api, namespace, "worker", termination_message(step=10))
    wait_for("the evaluation gang", lambda: len(api.pods(namespace)) == 4)
    wait_for("them to run", lambda: all(p["status"]["phase"] != "Pending" for p in api.pods(namespace)))
    end_gang(api, namespace, "evaluation", termination_message(evaluation=RESULT))
    await_phase(api, namespace, "Succeeded")
    wait_for("the last event", lambda: "Succeeded" in reasons(api, namespace))
    made = alone.requests_made()
    assert sum(made.values()) <= 4 + 11, made  # that all of them have run is stored at once


@pytest.mark.usefixtures("controller")
def test_the_key_of_the_launchers_is_in_an_immutable_secret_that_is_deleted_with_the_job(
    api: Api, namespace: str
) -> None:
    """Given a running job, when it is deleted, then its Secret is too, and neither job nor pods have shown the key."""
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    new_job(api, namespace)
    job = await_phase(api, namespace, "Running")
    (secret,) = api.do("GET", secrets)["items"]
    assert secret["metadata"]["name"] == f"fashion-launcher-{job['metadata']['uid']}"
    assert (secret["type"], secret["immutable"], [*secret["data"]]) == ("Opaque", True, ["key"])
    shown = json.dumps([job, api.pods(namespace)])
    assert secret["data"]["key"] not in shown
    assert base64.b64decode(secret["data"]["key"]).decode() not in shown
    api.do("DELETE", f"{JOBS.format(ns=namespace)}/fashion")
    wait_for("the deletion of the Secret", lambda: not api.do("GET", secrets)["items"])


def reasons(api: Api, namespace: str) -> list[str]:
    events = api.do("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")["items"]
    return [e["reason"] for e in events if e["regarding"]["kind"] == "TFDistJob"]


@pytest.mark.usefixtures("controller")
def test_deleting_a_job_leaves_no_object_of_it(api: Api, namespace: str) -> None:
    new_job(api, namespace)
    await_phase(api, namespace, "Running")
    api.do("DELETE", f"{JOBS.format(ns=namespace)}/fashion")
    wait_for("the pods to be deleted", lambda: not api.pods(namespace))
    services = f"/api/v1/namespaces/{namespace}/services"
    wait_for("the service to be deleted", lambda: not api.do("GET", services)["items"])


@pytest.mark.usefixtures("controller")
def test_a_crash_of_one_replica_restarts_the_gang_under_new_names(api: Api, namespace: str) -> None:
    new_job(api, namespace)
    await_phase(api, namespace, "Running")
    api.end_container(namespace, "fashion-worker-1", 137)
    wait_for("the next attempt", lambda: api.job(namespace, "fashion")["status"].get("attempt") == 1)
    status = await_phase(api, namespace, "Running")["status"]
    assert status["restarts"] == {"counted": 1, "sinceCheckpoint": 1, "uncounted": 0}
    assert status["failures"][-1]["pod"] == "fashion-worker-1"
    service = api.do("GET", f"/api/v1/namespaces/{namespace}/services/fashion")
    assert service["spec"]["selector"]["tfdist.dev/address-generation"] == "1"
    live = {p["metadata"]["name"] for p in api.pods(namespace) if "deletionTimestamp" not in p["metadata"]}
    assert {"fashion-worker-0-r1", "fashion-worker-1-r1"} <= live
    assert "fashion-worker-0" not in live


@pytest.mark.usefixtures("controller")
def test_a_job_whose_pods_cannot_be_created_reports_it_and_others_continue(api: Api, namespace: str) -> None:
    new_job(api, namespace, "bad", template={"spec": {"priorityClassName": "missing"}})
    new_job(api, namespace, "good")
    await_phase(api, namespace, "Running", "good")

    def complaint() -> str:
        status: Json = api.job(namespace, "bad").get("status", {})
        found = [c["message"] for c in status.get("conditions", ()) if c["reason"] == "FailedCreate"]
        return found[0] if found else ""

    assert "missing" in wait_for("the rejection in the status", complaint)


@pytest.mark.usefixtures("controller")
def test_what_only_the_controller_can_see_becomes_the_condition_invalid(api: Api, namespace: str) -> None:
    spec = EVALUATED | {
        "volumes": [{"name": "c", "emptyDir": {}}],
        "volumeMounts": [{"name": "c", "mountPath": "/ckpt"}],
    }
    new_job(api, namespace, **spec)
    status = await_phase(api, namespace, "Invalid")["status"]
    assert status["conditions"][0]["message"].startswith("spec.checkpoint.directory: ")
    assert api.pods(namespace) == []


def test_a_killed_controllers_work_is_completed_by_the_next_one(
    api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    with run_controller(api, tmp_path) as first:
        new_job(api, namespace, worker={"replicas": 20})
        wait_for("the first pod", lambda: api.pods(namespace))
        first.process.kill()
    with run_controller(api, tmp_path):
        await_phase(api, namespace, "Running")
        assert len(api.pods(namespace)) == 20
        end_gang(api, namespace, "worker")
        await_phase(api, namespace, "Succeeded")


@pytest.mark.usefixtures("controller")
def test_every_pod_has_the_same_cluster_and_its_own_task(api: Api, namespace: str) -> None:
    new_job(api, namespace)
    await_phase(api, namespace, "Running")
    for pod in api.do("GET", PODS.format(ns=namespace))["items"]:
        env = {e["name"]: e.get("value") for e in pod["spec"]["containers"][0]["env"]}
        config = json.loads(env["TF_CONFIG"])
        addresses = [f"worker-{i}.fashion.{namespace}.svc:2222" for i in range(2)]
        assert config["cluster"] == {"worker": addresses}
        assert f"worker-{config['task']['index']}" == pod["spec"]["hostname"]


@pytest.mark.usefixtures("controller")
def test_a_job_deleted_in_the_foreground_is_not_started_again_while_its_pods_terminate(
    api: Api, namespace: str
) -> None:
    new_job(api, namespace)
    await_phase(api, namespace, "Running")
    api.do("DELETE", f"{JOBS.format(ns=namespace)}/fashion", {"propagationPolicy": "Foreground"})
    wait_for(
        "the job to be deleted", lambda: api.send("GET", f"{JOBS.format(ns=namespace)}/fashion").status_code == 404
    )
    names = [pod["metadata"]["name"] for pod in api.pods(namespace)]
    assert not [name for name in names if name.endswith("-r1")]
