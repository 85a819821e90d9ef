"""Suspension of jobs whose replicas end within the grace period, against a real API server."""

import pathlib
from collections.abc import Iterator

import pytest
from support import kubelet
from support.api import JOBS, PODS, Api, Json
from support.controller import controller as run_controller
from support.factories import manifest
from support.polling import wait_for

pytestmark = pytest.mark.integration

REPLICAS = ("fashion-worker-0", "fashion-worker-1")


@pytest.fixture
def node(api: Api) -> Iterator[str]:
    """A node without a kubelet: the test itself runs, ends and removes the pods on it."""
    with kubelet.silent_node(api) as name:
        yield name


def new_job(api: Api, namespace: str, node: str) -> None:
    placed = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [kubelet.SILENT]}
    made = manifest("fashion", namespace, successPolicy="AllWorkers", template={"spec": placed})
    del made["metadata"]["uid"]
    api.create_job(made)


def await_phase(api: Api, namespace: str, phase: str) -> Json:
    def status() -> Json | None:
        found: Json = api.job(namespace, "fashion").get("status", {})
        return found if found.get("phase") == phase else None

    found = wait_for(f"phase {phase}", status)
    assert found is not None
    return found


def scheduled(api: Api, namespace: str) -> bool:
    return [p["metadata"]["name"] for p in api.pods(namespace) if p["spec"].get("nodeName")] == [*REPLICAS]


def run_job(api: Api, namespace: str, node: str) -> None:
    new_job(api, namespace, node)
    wait_for("the pods on the node", lambda: scheduled(api, namespace))
    for name in REPLICAS:
        kubelet.play(api, f"{PODS.format(ns=namespace)}/{name}", "R")
    await_phase(api, namespace, "Running")


def suspend(api: Api, namespace: str) -> None:
    path = f"{JOBS.format(ns=namespace)}/fashion"
    api.do("PATCH", path, {"spec": {"runPolicy": {"suspend": True}}}, "merge-patch")

    def terminating() -> bool:
        return all("deletionTimestamp" in pod["metadata"] for pod in api.pods(namespace))

    wait_for("all pods to be terminating", terminating)


def end(api: Api, namespace: str, word: str) -> None:
    """Report the end of all containers."""
    for name in REPLICAS:
        kubelet.play(api, f"{PODS.format(ns=namespace)}/{name}", word)


def remove(api: Api, namespace: str) -> None:
    """Remove the pods, as the kubelet does at once after the end of their containers."""
    for name in REPLICAS:
        api.do("DELETE", f"{PODS.format(ns=namespace)}/{name}", {"gracePeriodSeconds": 0})


@pytest.mark.usefixtures("controller")
@pytest.mark.parametrize(("word", "phase", "attempt"), [("S", "Succeeded", 0), ("F42", "Suspended", 1)])
def test_a_suspended_job_has_succeeded_if_its_workers_end_with_0_within_the_grace_period(
    api: Api, namespace: str, node: str, word: str, phase: str, attempt: int
) -> None:
    # given a running job that is being suspended
    run_job(api, namespace, node)
    suspend(api, namespace)
    # when its containers end, and its pods are removed at once
    end(api, namespace, word)
    remove(api, namespace)
    # then exit code 0 completes the job, and a save suspends it
    status = await_phase(api, namespace, phase)
    assert (status["attempt"], status["restarts"]["counted"]) == (attempt, 0)
    assert api.pods(namespace) == []


def test_a_controller_that_starts_before_the_pods_are_removed_observes_their_success(
    api: Api, namespace: str, node: str, tmp_path: pathlib.Path
) -> None:
    # given a job that is being suspended, and a controller that is killed
    with run_controller(api, tmp_path) as first:
        run_job(api, namespace, node)
        suspend(api, namespace)
        await_phase(api, namespace, "Suspending")
        first.process.kill()
    # when its containers end with 0, and another controller starts
    end(api, namespace, "S")
    with run_controller(api, tmp_path):
        # then the job has succeeded
        await_phase(api, namespace, "Succeeded")
        remove(api, namespace)
