"""Strategy `ParameterServer`: a worker is replaced alone, and the coordinator continues without it."""

import pytest
from support.factories import Lifecycle, created, deleted, event_reasons, pod, report

from tfdist.observed.job_view import ProbeResult, StepCadence
from tfdist.observed.pod import PodSummary

ALL = "chief-0:R worker-0:R worker-1:R ps-0:R"
SPEC = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "image": "a", "command": ["b"]}


def job(**changes: object) -> Lifecycle:
    return Lifecycle(ALL, **{**SPEC, **changes})


def others(*more: PodSummary) -> list[PodSummary]:
    return [pod("chief-0"), pod("worker-0"), pod("ps-0"), *more]


NEW = pod("worker-1-r1", generation="0")


def test_a_worker_alone_gets_a_new_pod_and_the_others_stay() -> None:
    story = job()
    todo = story.reconcile(others(pod("worker-1", "F", exit_code=1)))
    assert created(todo) == ["worker-1-r1"]
    assert deleted(todo) == []
    assert story.status["phase"] == "Running"
    assert story.condition_status("PodsReady") == ("False", "Restarting")
    labels = todo.creates[0]["metadata"]["labels"]
    assert labels["tfdist.dev/address-generation"] == "0", "the others find it where they found the old one"
    assert todo.objects[0]["spec"]["selector"]["tfdist.dev/address-generation"] == "0", "the Service stays as it is"


def test_the_replaced_worker_counts_once_and_runs_in_its_own_attempt() -> None:
    story = job()
    story.reconcile(others(pod("worker-1", "F", exit_code=1)))
    assert story.status["attempt"] == 1
    assert story.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
    todo = story.reconcile(others(pod("worker-1", "F", exit_code=1), NEW))
    assert (created(todo), deleted(todo)) == ([], [])
    assert story.condition_status("PodsReady") == ("True", "AllReplicasRunning")


def test_the_old_pod_of_a_replaced_worker_loses_its_address_and_is_deleted() -> None:
    story = job()
    dying = pod("worker-1", deleting=True)
    todo = story.reconcile(others(dying))
    assert created(todo) == ["worker-1-r1"], "the replacement does not wait until the pod on a dead node is deleted"
    assert [p.pod for p in todo.patches] == ["fashion-worker-1"]
    assert todo.patches[0].body == {"metadata": {"labels": {"tfdist.dev/address-generation": None}}}
    again = story.reconcile(others(pod("worker-1", deleting=True, generation=""), NEW))
    assert again.patches == ()


@pytest.mark.parametrize("lost", ["chief-0", "ps-0"])
def test_a_failed_server_or_chief_restarts_the_whole_gang(lost: str) -> None:
    story = job()
    pods = [p for p in [*others(), pod("worker-1")] if p.name != f"fashion-{lost}"]
    todo = story.reconcile([*pods, pod(lost, "F", exit_code=139)])
    assert created(todo) == ["chief-0-r1", "worker-0-r1", "worker-1-r1", "ps-0-r1"]
    assert len(todo.deletes) == 3
    assert [o["kind"] for o in todo.objects] == ["Service", "NetworkPolicy"]
    assert story.status["phase"] == "Restarting"


def test_a_server_and_a_worker_that_fail_together_are_one_restart() -> None:
    story = job()
    pods = [pod("chief-0"), pod("worker-0"), pod("worker-1", "F", exit_code=75), pod("ps-0", "F", exit_code=139)]
    story.reconcile(pods)
    assert story.status["restarts"]["counted"] == 1
    assert [f["reason"] for f in story.status["failures"]] == ["Secondary", "Crash"]


def test_two_workers_that_fail_are_two_restarts() -> None:
    story = job()
    todo = story.reconcile(
        [pod("chief-0"), pod("worker-0", "F", exit_code=1), pod("worker-1", "F", exit_code=3), pod("ps-0")]
    )
    assert created(todo) == [], "the second restart that counts has to wait"
    assert story.status["restarts"]["counted"] == 2
    later = story.reconcile("chief-0:R ps-0:R", after=10)
    assert created(later) == ["worker-0-r1", "worker-1-r2"]


def test_a_restart_of_all_after_one_of_a_worker_alone_takes_a_number_that_none_has_had() -> None:
    story = job()
    story.reconcile(others(pod("worker-1", "F", exit_code=42)))
    story.reconcile(others(NEW))
    todo = story.reconcile([pod("chief-0"), pod("worker-0"), pod("ps-0", "F", exit_code=42), NEW])
    assert created(todo) == ["chief-0-r2", "worker-0-r2", "worker-1-r2", "ps-0-r2"]
    assert sorted(deleted(todo)) == ["chief-0", "worker-0", "worker-1-r1"]


def test_a_worker_whose_pod_was_deleted_and_is_gone_is_replaced_without_a_count() -> None:
    story = job()
    todo = story.reconcile(others())
    assert created(todo) == ["worker-1-r1"]
    assert story.status["restarts"] == {"counted": 0, "uncounted": 1, "sinceCheckpoint": 0}


def test_a_servers_end_decides_nothing() -> None:
    story = job(successPolicy="AllWorkers")
    todo = story.reconcile("chief-0:S worker-0:S worker-1:R ps-0:S")
    assert (created(todo), story.status["phase"]) == ([], "Running")
    story.reconcile("chief-0:S worker-0:S worker-1:S ps-0:R")
    assert story.status["phase"] == "Succeeded"


def test_servers_that_still_run_after_the_success_are_stopped() -> None:
    story = job()
    story.reconcile("chief-0:S worker-0:R worker-1:R ps-0:R")
    assert event_reasons(story.reconcile("chief-0:S worker-0:R worker-1:R ps-0:R")) == []
    todo = story.reconcile("chief-0:S worker-0:R worker-1:R ps-0:R", after=10)
    assert deleted(todo) == ["worker-0", "worker-1", "ps-0"]


def test_a_start_deadline_does_not_count_from_the_start_of_replicas_that_run_already() -> None:
    story = job(runPolicy={"startDeadlineSeconds": 60})
    lost = pod("worker-1", "F", exit_code=1)
    story.reconcile(others(lost), after=5000)
    waits = pod("worker-1-r1", "P", generation="0", created_at="2030-01-02T04:27:25Z")
    todo = story.reconcile(others(lost, waits), after=30)
    assert todo.requeue_after_seconds == pytest.approx(30)
    story.reconcile(others(lost, waits), after=31)
    assert story.condition_status("Failed") == ("True", "StartDeadlineExceeded")


def test_the_coordinator_is_watched_for_stalls_after_a_worker_was_replaced() -> None:
    story = job(runPolicy={"progressDeadlineSeconds": 60})
    story.reconcile(others(pod("worker-1", "F", exit_code=1)))
    cadence = StepCadence(attempt=0, last_progress_at="2030-01-02T03:04:05Z")
    todo = story.reconcile(others(NEW), after=61, report=report(), cadence=cadence)
    assert [str(q.role) for q in todo.probes] == ["chief", "worker", "worker", "ps"]
    probe_result = ProbeResult(todo.probe_id, "ps-0", "ps-0: does not answer")
    story.reconcile(others(NEW), report=report(), cadence=cadence, probe_result=probe_result)
    assert (story.status["attempt"], story.status["phase"]) == (2, "Restarting")
    assert story.status["failures"][-1]["pod"] == "fashion-ps-0"
