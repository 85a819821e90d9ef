"""Cases C60 to C71: when a replica of a moved TFJob starts again, and when its end fails the job.

In all of them TFDist starts a replica again in a new pod with a new name, and with it those that belong together;
the pod that failed stays for its logs.
"""

import pytest
from support.api import Json
from support.conformance import ConformanceCluster, ConvertedJob, situation, types

pytestmark = pytest.mark.integration


def ps_ends(policy: str, word: str) -> tuple[Json, str]:
    """Return a TFJob with one restart policy whose ps 0 has ended while all others run."""
    return types(policy, chief=1, worker=2, ps=2), f"chief-0:R worker-0,1:R ps-0:{word} ps-1:R"


def starts_again(job: ConvertedJob) -> None:
    """A ps starts again with the chief and the workers, which have lost their variables with it."""
    job.await_phase("Restarting")
    again = {f"{name}-r1" for name in ("chief-0", "worker-0", "worker-1", "ps-0", "ps-1")}
    job.await_pods("the next attempt", "ps-0", *again)


def goes_on(job: ConvertedJob) -> None:
    """The job runs on without that replica."""
    assert job.await_phase("Running")["attempt"] == 0


def fails(job: ConvertedJob) -> None:
    """The job has failed, and nothing starts again."""
    assert job.await_phase("Failed")["attempt"] == 0


def test_c60_under_exit_code_a_pod_that_a_signal_ended_is_replaced(cluster: ConformanceCluster) -> None:
    """The peer deletes the pod and makes one of the same name, so its logs are gone; TFDist keeps it.

    `keepFailedPods` is the number of such pods that stay.
    """
    job = cluster.submit(types("ExitCode", worker=1))
    job.await_attempt(0)
    job.end("worker-0:F130")
    job.await_attempt(1)
    job.await_pods("the new pod in addition to the old", "worker-0", "worker-0-r1")


@situation(types("ExitCode", worker=1), "worker-0:F1")
def test_c61_under_exit_code_a_permanent_error_fails_the_job_and_names_the_replica(job: ConvertedJob) -> None:
    job.await_phase("Failed")
    failed = job.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "FailurePolicy"
    assert failed["message"].startswith(f"worker-0 (pod {job.name}-worker-0")
    assert "exit code 1" in failed["message"]


@situation(*ps_ends("Always", "S"))
def test_c62_under_always_a_ps_that_ended_with_0_is_done(job: ConvertedJob) -> None:
    """The peer's kubelet starts it again, for ever, after the job's end too; who ends with 0 has nothing left to do."""
    goes_on(job)


@situation(*ps_ends("Always", "F1"))
def test_c63_under_always_a_ps_that_failed_starts_again(job: ConvertedJob) -> None:
    starts_again(job)


@situation(*ps_ends("OnFailure", "F1"))
def test_c64_under_on_failure_a_ps_that_failed_starts_again(job: ConvertedJob) -> None:
    starts_again(job)


@situation(*ps_ends("OnFailure", "S"))
def test_c65_under_on_failure_a_ps_that_ended_with_0_is_not_restarted(job: ConvertedJob) -> None:
    goes_on(job)


@situation(*ps_ends("Never", "F1"))
def test_c66_under_never_a_ps_that_failed_fails_the_job(job: ConvertedJob) -> None:
    fails(job)


@situation(*ps_ends("Never", "S"))
def test_c67_under_never_a_ps_that_ended_with_0_is_not_restarted(job: ConvertedJob) -> None:
    goes_on(job)


@situation(*ps_ends("ExitCode", "F1"))
def test_c68_under_exit_code_a_ps_that_ended_with_1_fails_the_job(job: ConvertedJob) -> None:
    fails(job)


@situation(*ps_ends("ExitCode", "F130"))
def test_c69_under_exit_code_a_ps_that_a_signal_ended_starts_again(job: ConvertedJob) -> None:
    starts_again(job)


@situation(types("ExitCode", worker=1), "worker-0:F?")
def test_c70_under_exit_code_a_pod_that_failed_without_an_exit_code_starts_again(job: ConvertedJob) -> None:
    """As with the peer; and such an end, of an evicted pod, is not counted by `backoffLimit`."""
    status = job.await_phase("Restarting")
    assert status["restarts"]["counted"] == 0
    job.await_pods("the new pod", "worker-0", "worker-0-r1")


@situation(types("Never", worker=1), "worker-0:F?")
def test_c70_under_never_a_pod_that_failed_without_an_exit_code_starts_again(job: ConvertedJob) -> None:
    """The peer fails the job; but nothing of the program has failed, the pod was evicted or its node was lost."""
    assert job.await_phase("Restarting")["restarts"]["uncounted"] == 1


@situation(types("ExitCode", worker=1), "worker-0:F1")
@situation(types("ExitCode", worker=1), "worker-0:F2")
@situation(types("ExitCode", worker=1), "worker-0:F3")
@situation(types("ExitCode", worker=1), "worker-0:F127")
def test_c71_under_exit_code_codes_below_128_are_final(jobs: list[ConvertedJob]) -> None:
    for job in jobs:
        fails(job)


@situation(types("ExitCode", worker=1), "worker-0:F128")
@situation(types("ExitCode", worker=1), "worker-0:F130")
@situation(types("ExitCode", worker=1), "worker-0:F138")
@situation(types("ExitCode", worker=1), "worker-0:F255")
def test_c71_under_exit_code_codes_from_128_start_again(jobs: list[ConvertedJob]) -> None:
    for job in jobs:
        assert job.await_phase("Restarting")["attempt"] == 1
