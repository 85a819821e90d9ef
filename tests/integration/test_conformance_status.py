"""Cases C36 to C59: the status that follows from the pods of a moved TFJob.

In each situation the controller finds the pods as given, in one reconciliation. Where TFDist differs on purpose, the
test's docstring states the training operator's behaviour and the reason for the difference.
"""

import pytest
from support.api import Json
from support.conformance import ConformanceCluster, ConvertedJob, situation, types
from support.tfjobs import replica

pytestmark = pytest.mark.integration

FOUR = types(worker=4)
ALL: Json = {"successPolicy": "AllWorkers"}


# Whose success is the job's


@situation(types(chief=1, worker=1), "chief-0:S worker-0:R")
def test_c36_a_chief_that_succeeded_ends_the_job(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")
    assert job.holds() == {"Succeeded"}


@situation(types(chief=1, worker=1), "chief-0:R worker-0:R")
def test_c37_with_a_running_chief_the_job_runs(job: ConvertedJob) -> None:
    job.await_phase("Running")


@situation(types(chief=1, worker=1), "chief-0:R worker-0:P")
def test_c37_a_running_chief_does_not_make_a_running_job_while_others_wait(job: ConvertedJob) -> None:
    """The peer reports Running here; see C17: a job that waits for a place should not appear to train."""
    job.await_phase("Starting")


@situation(types(chief=1, worker=1), "chief-0:F1 worker-0:R")
def test_c38_a_chief_that_failed_fails_the_job(job: ConvertedJob) -> None:
    job.await_phase("Failed")
    assert job.holds() == {"Failed"}


@situation(types(worker=1), "worker-0:F1")
def test_c39_without_a_chief_a_worker_that_failed_fails_the_job(job: ConvertedJob) -> None:
    job.await_phase("Failed")


@situation(types(worker=1), "worker-0:S")
def test_c40_without_a_chief_a_worker_that_succeeded_ends_the_job(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")


@situation(types(worker=1), "worker-0:R")
def test_c41_with_a_running_worker_the_job_runs(job: ConvertedJob) -> None:
    job.await_phase("Running")


@situation(FOUR, "worker-0,3:R worker-1,2:S")
def test_c42_while_worker_0_runs_the_success_of_others_ends_nothing(job: ConvertedJob) -> None:
    status = job.await_phase("Running")
    assert (status["replicas"]["worker"]["running"], status["replicas"]["worker"]["succeeded"]) == (2, 2)


@situation(FOUR, "worker-0:S? worker-1:S worker-2,3:R")
def test_c42_the_phase_of_worker_0s_pod_is_enough_for_success(job: ConvertedJob) -> None:
    """The peer goes on running: it wants to see the exit code too.

    Kubernetes calls a pod Succeeded only when every container of it has ended with 0, so nothing more can come.
    """
    job.await_phase("Succeeded")


@situation(FOUR, "worker-0,1:R worker-2,3:F1")
def test_c43_a_worker_that_failed_fails_the_job_while_others_run(job: ConvertedJob) -> None:
    job.await_phase("Failed")


@situation(FOUR, "worker-0,1:F1 worker-2,3:S")
def test_c44_a_worker_that_failed_fails_the_job_while_others_have_succeeded(job: ConvertedJob) -> None:
    job.await_phase("Failed")


@situation(FOUR, "worker-0,1:S worker-2,3:F1")
def test_c44_when_worker_0_has_succeeded_a_failure_in_the_same_reconciliation_does_not_count(job: ConvertedJob) -> None:
    """The peer reports Failed, or Succeeded when the failure comes a moment later.

    Worker 0 decides, and it has succeeded; which reconciliation sees which pod is chance, and must not decide.
    """
    job.await_phase("Succeeded")
    assert job.holds() - {"Degraded"} == {"Succeeded"}, "Degraded names the failure after it"


@situation(FOUR, "worker-0:S worker-1,2,3:R")
def test_c45_worker_0_ends_the_job_while_others_run(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")


@situation(FOUR, "worker-0:S worker-1,2,3:R", **ALL)
def test_c46_with_all_workers_it_runs_on(job: ConvertedJob) -> None:
    job.await_phase("Running")


@situation(FOUR, "worker-0,1,2,3:S", **ALL)
def test_c47_with_all_workers_the_success_of_all_ends_the_job(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")


@situation(FOUR, "worker-0:S worker-1,2:R worker-3:F1", **ALL)
def test_c48_with_all_workers_one_failure_fails_the_job(job: ConvertedJob) -> None:
    job.await_phase("Failed")


# A chief and other replicas


@situation(types(chief=1, worker=4), "chief-0:R worker-0,1,2,3:F1")
def test_c49_workers_that_failed_fail_the_job_though_the_chief_runs(job: ConvertedJob) -> None:
    """The peer sets Failed and leaves Running as it is; a job that has ended does not run (C55)."""
    job.await_phase("Failed")
    assert job.holds() == {"Failed"}


@situation(types(chief=1, worker=4), "chief-0:R worker-0,1,2,3:S")
def test_c50_while_the_chief_runs_the_workers_success_ends_nothing(job: ConvertedJob) -> None:
    job.await_phase("Running")


@situation(types(chief=1, worker=1, ps=2), "chief-0:R worker-0:R ps-0:R ps-1:F1")
def test_c51_a_ps_that_failed_fails_the_job_though_the_chief_runs(job: ConvertedJob) -> None:
    job.await_phase("Failed")


@situation(types(chief=1, worker=4), "chief-0:F1 worker-0,1,2,3:S")
def test_c52_a_chief_that_failed_fails_the_job_though_the_workers_succeeded(job: ConvertedJob) -> None:
    job.await_phase("Failed")


@situation(types(chief=1, worker=4), "chief-0:S worker-0,1,2,3:F1")
def test_c53_a_chief_that_succeeded_ends_the_job_though_workers_failed(job: ConvertedJob) -> None:
    """The peer sets Failed in addition to Succeeded; the chief decides, and a job has one end."""
    job.await_phase("Succeeded")
    assert job.holds() - {"Degraded"} == {"Succeeded"}, "Degraded names the failure after it"


@situation(types("ExitCode", chief=1, worker=1), "chief-0:F130 worker-0:R")
def test_c54_a_chief_that_a_signal_ended_restarts_under_exit_code(job: ConvertedJob) -> None:
    """The peer restarts the chief alone; its workers would wait for one that has forgotten them, so all restart."""
    status = job.await_phase("Restarting")
    assert status["attempt"] == 1
    job.await_pods("the next attempt", "chief-0", "chief-0-r1", "worker-0-r1")


# Status as a whole


@situation(types(worker=1), "worker-0:R")
def test_c56_worker_0_that_runs_has_not_completed(job: ConvertedJob) -> None:
    job.await_phase("Running")


@situation(types(worker=1), "worker-0:S")
def test_c56_worker_0_that_ended_with_0_has_completed(job: ConvertedJob) -> None:
    assert job.await_phase("Succeeded")["gangs"]["training"]["completed"] == ["worker-0"]


@situation(types(chief=1), "chief-0:S")
def test_c56_without_workers_none_is_waited_for(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")


@situation(types(worker=2), "worker-0:S worker-1:F1")
def test_c56_worker_0_has_completed_whatever_became_of_others(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")


@situation(types(worker=2), "worker-0:F1 worker-1:R")
def test_c56_worker_0_that_failed_has_not_completed(job: ConvertedJob) -> None:
    assert "completed" not in job.await_phase("Failed")["gangs"]["training"]


def test_c57_conditions_follow_the_jobs_life(cluster: ConformanceCluster) -> None:
    """The peer begins with Created, which repeats that the object exists; and it removes a condition
    that another replaces, if TFDist sets it to False, so that one can see since when."""
    job = cluster.submit({"Worker": replica(2, restart_policy="OnFailure")})
    job.await_attempt(0)
    assert job.holds() == {"PodsReady", "Running"}
    job.end("worker-1:F137")
    job.await_attempt(1)
    restarting = job.condition("Restarting")
    assert restarting is not None
    assert restarting["status"] == "False"
    assert "Restarting" in job.events()
    job.end("worker-1-r1:F64")  # an error in the command line, which no restart cures
    job.await_phase("Failed")
    assert job.holds() & {"Running", "Restarting", "Succeeded", "Failed"} == {"Failed"}


@situation(types(worker=7), "worker-0:X worker-1,2,3:S worker-4,5:F1 worker-6:R")
def test_c58_a_pod_that_is_being_deleted_counts_as_running_until_it_ends(job: ConvertedJob) -> None:
    """The peer counts it as failed at once, and fails the job for it under every policy.

    A deletion is the cluster's or a person's doing and no failure of the program; the two earlier failures end the job.
    """
    counts = job.await_phase("Failed")["replicas"]["worker"]
    assert (counts["running"], counts["succeeded"], counts["failed"]) == (2, 3, 2)


@situation(types(worker=1), policy={"suspend": True, "ttlSecondsAfterFinished": 0})
def test_c59_a_suspended_job_has_not_ended(job: ConvertedJob) -> None:
    status = job.await_phase("Suspended")
    assert "completionTime" not in status
    job.change(runPolicy={"suspend": False})
    job.await_phase("Starting")


def test_c55_no_job_that_has_ended_has_the_condition_running(cluster: ConformanceCluster) -> None:
    ended = [j for jobs in cluster.situations.values() for j in jobs if j.holds() & {"Succeeded", "Failed"}]
    assert len(ended) >= 15
    for job in ended:
        assert not job.holds() & {"Running", "Restarting"}, job.name
        assert len(job.holds() & {"Succeeded", "Failed"}) == 1, job.name
