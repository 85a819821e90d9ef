"""A missing replica: the job is not Running, and its conditions name the replica and the reason."""

from collections.abc import Collection

import pytest
from support.factories import Lifecycle, launcher_report, pod, report

from tfdist.api.gang_system import GangSystem
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"


def launched() -> Lifecycle:
    """Return a gang under launchers that trains, with a remaining time."""
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=launcher_report())
    return job


def test_a_job_does_not_run_while_the_api_server_rejects_the_replacement_of_a_replica() -> None:
    job = launched()
    timed = report(5, gang=launcher_report().content.gang, remaining_seconds=10)
    job.reconcile(BOTH, report=timed)
    assert job.status["summary"]["eta"] == "10s"
    job.reconcile([pod("worker-0")], report=timed)
    job.reconcile([pod("worker-0")], report=timed, create_error="violates PodSecurity")
    assert (job.status["phase"], job.condition_status("Running")[0]) == ("Restarting", "False")
    assert "the pod of worker-1 was deleted while it ran" in job.message("Restarting")
    assert "violates PodSecurity" in job.message("PodsReady")
    assert "eta" not in job.status["summary"]
    assert "etaSeconds" not in job.status["progress"]
    job.reconcile([pod("worker-0"), pod("worker-1-r1")], report=timed)
    assert (job.status["phase"], job.condition_status("Running")) == ("Running", ("True", "AllReplicasRunning"))


def test_a_status_of_an_earlier_version_that_calls_the_job_running_is_corrected() -> None:
    job = launched()
    before = [c for c in job.status["conditions"] if c["type"] == "Running"]
    job.reconcile([pod("worker-0")])
    others = [c for c in job.status["conditions"] if c["type"] not in {"Running", "Restarting"}]
    job.status["conditions"] = [*others, *before]
    job.reconcile([pod("worker-0"), pod("worker-1-r1", "P")])
    assert (job.status["phase"], job.condition_status("Restarting")) == ("Restarting", ("True", "ReplicaMissing"))
    assert "training waits for worker-1" in job.message("Running")


def test_while_a_gang_saves_because_a_pod_of_it_is_deleted_the_job_restarts() -> None:
    job = launched()
    job.reconcile([pod("worker-0"), pod("worker-1", deleting=True, deleted_at=rfc3339(job.now))])
    assert (job.status["phase"], job.condition_status("Restarting")) == ("Restarting", ("True", "Disruption"))
    assert "worker-1 (pod fashion-worker-1, node node-a) is being deleted" in job.message("Restarting")


def test_workers_of_parameter_servers_train_on_and_the_message_counts_them() -> None:
    job = Lifecycle(
        "chief-0:R ps-0:R worker-0:R worker-1:R",
        strategy="ParameterServer",
        chief={},
        ps={"replicas": 1},
        image="x",
        command=["y"],
    )
    job.reconcile("chief-0:R ps-0:R worker-0:R")
    job.reconcile("chief-0:R ps-0:R worker-0:R worker-1-r1:P")
    assert (job.status["phase"], job.condition_status("Running")) == ("Running", ("True", "WorkerMissing"))
    assert job.message("Running") == "3 of 4 replicas run, and train without worker-1 (attempt 1)"


def test_a_slow_start_names_the_replica_that_is_waited_for() -> None:
    job = Lifecycle(runPolicy={"startDeadlineSeconds": 60})
    job.reconcile()
    waits = [pod("worker-0"), pod("worker-1", "P", node="gone", created_at=rfc3339(job.now))]
    todo = job.reconcile(waits, after=10)
    assert (todo.requeue_after_seconds, "gone" in job.message("PodsReady")) == (20.0, False)
    job.reconcile(waits, after=20)
    who = "worker-1 (pod fashion-worker-1, node gone) has not started: the kubelet of node gone has not reported it"
    assert job.message("PodsReady").endswith(who)
    job.reconcile(waits, after=30)
    assert job.message("Failed").startswith(who)


@pytest.mark.parametrize(
    ("served", "text"),
    [
        pytest.param(
            {GangSystem.NATIVE},
            "its PodGroup fashion-training may lack members, see "
            "kubectl describe -n team podgroups.scheduling.k8s.io fashion-training",
            id="in a PodGroup",
        ),
        pytest.param((), "perhaps no scheduler with its schedulerName runs", id="without one"),
    ],
)
def test_a_pod_that_no_scheduler_has_tried_for_a_minute_is_named(served: Collection[GangSystem], text: str) -> None:
    # given
    job, systems = Lifecycle(), frozenset(served)
    job.reconcile(served_systems=systems)
    created_at = rfc3339(job.now)
    waits = [pod("worker-0", "P", node="", created_at=created_at), pod("worker-1", "P", created_at=created_at)]
    # when
    todo = job.reconcile(waits, after=40, served_systems=systems)
    # then
    assert todo.requeue_after_seconds == 20.0
    assert "no scheduler" not in job.message("PodsReady")
    # when a minute has passed
    job.reconcile(waits, after=20, served_systems=systems)
    # then
    untried = "worker-0 (pod fashion-worker-0) has not started: no scheduler has tried to place it: "
    assert job.message("PodsReady").endswith(untried + text)


def test_the_events_of_a_pod_are_read_only_once_it_has_had_its_node_for_a_while() -> None:
    # given a pod that has waited long for its node
    job = Lifecycle()
    job.reconcile()
    created_at = rfc3339(job.now)
    job.reconcile(after=1000)
    placed = pod("worker-1", "P", reason="ContainerCreating", created_at=created_at, scheduled_at=rfc3339(job.now))
    # then
    assert job.reconcile([pod("worker-0"), placed], after=29).unexplained_pod == ""
    assert job.reconcile([pod("worker-0"), placed], after=1).unexplained_pod == "fashion-worker-1"
