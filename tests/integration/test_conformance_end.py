"""Cases C72 to C82: what ends a moved TFJob, and what is left of it then."""

import pytest
from support.api import Json
from support.conformance import ConformanceCluster, ConvertedJob, situation, types
from support.factories import NOW, planned
from support.polling import wait_for
from support.tfjobs import tfjob

from tfdist.convert import convert
from tfdist.validation import parse

pytestmark = pytest.mark.integration

SIX = types(worker=4, ps=2)
SIX_RUN = "worker-0,1,2,3:R ps-0,1:R"
SIX_DONE = "worker-0,1,2,3:S ps-0,1:S"
CRASHED = "worker-0:R worker-1:F137"


def ended(how: str, when: str) -> Json:
    """Return the status of a job that ended at a time, as the controller left it."""
    condition: Json = {"type": how, "status": "True", "reason": how, "message": "it has ended"}
    condition |= {"observedGeneration": 1, "lastTransitionTime": when}
    return {"phase": how, "observedGeneration": 1, "completionTime": when, "conditions": [condition]}


LONG_AGO = ended("Succeeded", "2020-01-01T00:00:00Z")


def nothing_left(job: ConvertedJob) -> None:
    job.await_pods("no pod")
    wait_for("the Service to go", lambda: not job.has_service())


# Limits


def test_c72_a_job_that_failed_too_often_fails_and_is_cleaned_up(cluster: ConformanceCluster) -> None:
    """The peer counts restarts of containers in their pods; TFDist counts attempts, of which each has new pods.

    The limit is 1 here and not 4 as in the peer's case: a second restart waits for 10 s.
    """
    job = cluster.submit(types("OnFailure", worker=4), policy={"backoffLimit": 1, "cleanPodPolicy": "All"})
    job.await_attempt(0)
    job.end("worker-1:F137")
    job.await_attempt(1)
    job.end("worker-1-r1:F137")
    job.await_phase("Failed")
    failed = job.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "BackoffLimitExceeded"
    nothing_left(job)


@situation(types("OnFailure", worker=2), "worker-0,1:R", policy={"backoffLimit": 0})
def test_c73_a_limit_of_0_is_not_exceeded_by_a_job_that_only_runs(job: ConvertedJob) -> None:
    job.await_phase("Running")


@situation(types("OnFailure", worker=2), CRASHED, policy={"backoffLimit": 0})
def test_c73_a_limit_of_0_is_exceeded_by_the_first_failure(job: ConvertedJob) -> None:
    job.await_phase("Failed")


@situation(types("OnFailure", worker=2), "worker-0:R3 worker-1:R", policy={"backoffLimit": 3})
def test_c73_restarts_of_a_container_in_its_pod_do_not_count(job: ConvertedJob) -> None:
    """The peer fails the job here; no container of TFDist restarts in its pod, so the number is not read."""
    job.await_phase("Running")


@situation(SIX, SIX_RUN, policy={"cleanPodPolicy": "All"})
@situation(SIX, SIX_RUN, policy={"cleanPodPolicy": "All", "activeDeadlineSeconds": 2})
def test_c74_a_deadline_ends_the_job_and_without_one_it_runs_on(jobs: list[ConvertedJob]) -> None:
    """The peer's deadline needs some event after it; this one comes by itself."""
    endless, limited = jobs
    limited.await_phase("Failed")
    failed = limited.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "ActiveDeadlineExceeded"
    nothing_left(limited)
    assert endless.status["phase"] == "Running"
    assert len(endless.pods()) == 6


@situation(types(worker=1), "worker-0:R", policy={"activeDeadlineSeconds": 0})
def test_c75_a_deadline_of_0_becomes_1_and_ends_the_job(job: ConvertedJob) -> None:
    """The peer fails the job before its start, and no user needs such a job; TFDist's least deadline is 1 s."""
    job.await_phase("Failed")


@situation(types("OnFailure", worker=2), CRASHED, policy={"backoffLimit": 0, "cleanPodPolicy": "None"})
@situation(types("OnFailure", worker=2), CRASHED, policy={"backoffLimit": 0, "cleanPodPolicy": "Running"})
@situation(types("OnFailure", worker=2), CRASHED, policy={"backoffLimit": 0, "cleanPodPolicy": "All"})
def test_c76_after_too_many_failures_the_policy_selects_the_pods_to_delete(jobs: list[ConvertedJob]) -> None:
    none, running, every = jobs
    for job in jobs:
        job.await_phase("Failed")
    nothing_left(every)
    running.await_pods("the failed pod alone", "worker-1")
    assert set(none.pods()) == {"worker-0", "worker-1"}


# Clean-up


@situation(SIX, SIX_RUN, status=LONG_AGO, policy={"cleanPodPolicy": "All"})
@situation(SIX, SIX_RUN, status=LONG_AGO, policy={"cleanPodPolicy": "Running"})
@situation(SIX, SIX_DONE, status=LONG_AGO, policy={"cleanPodPolicy": "All"})
def test_c77_policy_all_removes_all_pods_and_running_those_that_run(jobs: list[ConvertedJob]) -> None:
    for job in jobs:
        nothing_left(job)


@situation(SIX, SIX_DONE, status=LONG_AGO, policy={"cleanPodPolicy": "Running"})
@situation(SIX, SIX_DONE, status=LONG_AGO, policy={"cleanPodPolicy": "None"})
@situation(SIX, SIX_RUN, status=LONG_AGO, policy={"cleanPodPolicy": "None"})
def test_c77_policy_none_keeps_all_pods_and_running_those_that_have_ended(
    cluster: ConformanceCluster, jobs: list[ConvertedJob]
) -> None:
    cluster.await_reconciliations()
    for job in jobs:
        assert len(job.pods()) == 6
        assert job.has_service()


@situation(types(worker=3), "worker-0,1:R worker-2:F1", policy={"suspend": True, "cleanPodPolicy": "Running"})
@situation(types(worker=3), "worker-0,1:R worker-2:F1", policy={"suspend": True, "cleanPodPolicy": "None"})
def test_c78_suspended_a_job_has_no_running_pod_whatever_the_policy(jobs: list[ConvertedJob]) -> None:
    """The peer deletes pods that have ended too, and every Service; TFDist keeps what costs nothing: logs and names."""
    for job in jobs:
        job.await_phase("Suspended")
        job.await_pods("the one that had ended", "worker-2")
        assert job.has_service()


# Clean-up as it goes in a job's life: parameter servers get some seconds to end by themselves

TRAINED = "chief-0:S worker-0,1,2,3:S ps-0,1:R"
SEVEN = types(chief=1, worker=4, ps=2)


@situation(SEVEN, TRAINED, policy={"cleanPodPolicy": "All"})
@situation(SEVEN, TRAINED, policy={"cleanPodPolicy": "Running"})
@situation(SEVEN, TRAINED, policy={"cleanPodPolicy": "None"})
def test_c79_after_success_endless_parameter_servers_are_deleted_by_the_policy(jobs: list[ConvertedJob]) -> None:
    """The peer removes them at once, in the middle of what they may be writing."""
    every, running, none = jobs
    for job in jobs:
        job.await_phase("Succeeded")
    running.await_pods("no ps", "chief-0", *(f"worker-{i}" for i in range(4)))
    nothing_left(every)
    assert {"ps-0", "ps-1"} == none.live()


# Time to live


@situation(types(worker=1), "worker-0:S", policy={"ttlSecondsAfterFinished": 1})
@situation(types(worker=1), "worker-0:F1", policy={"ttlSecondsAfterFinished": 1})
def test_c80_a_job_that_has_ended_is_deleted_after_its_time_to_live(jobs: list[ConvertedJob]) -> None:
    for job in jobs:
        wait_for("the job to be deleted", job.is_gone)


@situation(types(worker=1), "worker-0:S", status=LONG_AGO)
@situation(types(worker=1), "worker-0:S", status=LONG_AGO, policy={"ttlSecondsAfterFinished": 180})
@situation(types(worker=1), "worker-0:S", policy={"ttlSecondsAfterFinished": 0})
@situation(types(worker=1), policy={"suspend": True, "ttlSecondsAfterFinished": 0})
def test_c81_a_job_is_deleted_after_its_time_to_live_and_stays_without_one(
    cluster: ConformanceCluster, jobs: list[ConvertedJob]
) -> None:
    kept, long_ago, at_once, suspended = jobs
    for job in (long_ago, at_once):
        wait_for("the job to be deleted", job.is_gone)
    cluster.await_reconciliations()
    assert not kept.is_gone()
    assert suspended.await_phase("Suspended")


@situation(types(worker=1), "worker-0:S")
@situation(types(worker=1), "worker-0:F1")
@situation(types(worker=1), "worker-0:R", policy={"activeDeadlineSeconds": 1})
def test_c81_every_finished_job_has_a_completion_time(jobs: list[ConvertedJob]) -> None:
    """The peer forgets it in one case, and cannot clean up then; in TFDist the end and its time are one write."""
    for job in jobs:
        assert job.await_status("its end", lambda status: "completionTime" in status)["phase"] in {
            "Succeeded",
            "Failed",
        }


@pytest.mark.parametrize(
    ("ttl", "ended_at", "seconds"),
    [(None, "2030-01-02T03:04:04Z", None), (5, "2030-01-02T03:04:04Z", 4), (5, "2030-01-02T03:04:09Z", 9)],
)
def test_c82_the_timer_is_set_to_the_end_of_the_time_to_live(
    ttl: int | None, ended_at: str, seconds: float | None
) -> None:
    assert NOW.isoformat() == "2030-01-02T03:04:05+00:00"
    source = tfjob(types(worker=1), policy={} if ttl is None else {"ttlSecondsAfterFinished": ttl})
    plan = planned("worker-0:S", ended("Succeeded", ended_at), job=parse(convert(source).manifest))
    assert plan.requeue_after_seconds == seconds


def test_c82_a_running_job_has_no_timer_for_its_time_to_live() -> None:
    limited, unlimited = (tfjob(types(worker=1), policy=policy) for policy in ({"ttlSecondsAfterFinished": 5}, {}))
    timers = [
        planned("worker-0:R", job=parse(convert(job).manifest)).requeue_after_seconds for job in (limited, unlimited)
    ]
    assert timers[0] == timers[1]
