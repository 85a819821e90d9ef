"""Messages of running gangs: the cause of a restart, and the replicas that run, have ended, or are not ready."""

import pytest
from support.factories import Lifecycle, launcher_report, pod
from support.factories import failure_in_place as failure

from tfdist.observed.pod import PodSummary

BOTH = "worker-0:R worker-1:R"
WAITS = "; the launchers restart the gang in place, and wait: worker-1 has not joined"


def launched() -> Lifecycle:
    """Return a gang whose launchers have reported."""
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=launcher_report())
    return story


def test_the_cause_that_launchers_report_stays_in_the_condition_while_they_wait() -> None:
    story, reported = launched(), launcher_report(failure(1), waiting_for="worker-1 has not joined")
    for _ in range(3):
        story.reconcile(BOTH, report=reported)
        assert story.message("Restarting") == f"worker-1 failed in round 0: killed{WAITS}"
        assert story.status["summary"]["message"] == story.message("Restarting")


def test_the_cause_of_a_replaced_pod_stays_in_the_condition_while_the_launchers_wait_for_it() -> None:
    story = launched()
    story.reconcile([pod("worker-0"), pod("worker-1", "F", exit_code=1, message="ValueError: bad shape")])
    cause = story.message("Restarting")
    assert "ended with exit code 1: ValueError: bad shape" in cause
    replaced = "worker-0:R worker-1-r1:R"
    for text in ("worker-1 has not joined", "worker-1 imports its program"):
        story.reconcile(replaced, report=launcher_report(waiting_for=text))
        assert story.message("Restarting") == f"{cause}; the launchers restart the gang in place, and wait: {text}"


def test_the_cause_of_a_failure_that_was_reported_before_the_wait_is_that_of_its_record() -> None:
    story = launched()
    story.reconcile(BOTH, report=launcher_report(failure(1)))
    story.reconcile(BOTH, report=launcher_report(failure(1), waiting_for="worker-1 has not joined"))
    assert story.message("Restarting") == f"worker-1 failed in round 0: killed{WAITS}"


def test_the_failures_before_a_suspension_are_not_the_cause_of_the_wait_after_it() -> None:
    story = launched()
    story.reconcile(BOTH, report=launcher_report(failure(1)))
    story.spec["runPolicy"] = {"suspend": True}
    story.reconcile("", after=60, generation=2)
    story.spec["runPolicy"] = {"suspend": False}
    story.reconcile("", after=60, generation=3)
    resumed = launcher_report(number=-1, attempt=1, waiting_for="worker-1 has not joined")
    story.reconcile("worker-0-r1:R worker-1-r1:R", generation=3, report=resumed)
    assert story.message("Restarting") == WAITS.removeprefix("; ")


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        ([pod("worker-0"), pod("worker-1")], "all 2 replicas run"),
        ([pod("worker-0"), pod("worker-1", "S")], "1 of 2 replicas run; worker-1 has ended"),
        ([pod("worker-0"), pod("worker-1", ready=False)], "all 2 replicas run; worker-1 is not ready"),
        (
            [pod("worker-0", ready=False), pod("worker-1", "S")],
            "1 of 2 replicas run; worker-1 has ended; worker-0 is not ready",
        ),
    ],
)
def test_a_running_gang_counts_the_replicas_that_run_and_names_the_others(pods: list[PodSummary], text: str) -> None:
    story = Lifecycle(BOTH)
    story.reconcile(pods)
    assert story.message("PodsReady") == text
    assert story.message("Running") == f"{text} (attempt 0)"
