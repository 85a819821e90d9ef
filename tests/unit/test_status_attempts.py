"""`status.attempts`: each attempt once, with its time, steps, the root cause of its end, and the time to recover."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import CHECKPOINT, EVALUATED, NOW, Lifecycle, launcher_report, pod, report, termination_message
from support.factories import failure_in_place as failure

from tfdist.api.history_status import MAX_ATTEMPTS
from tfdist.api.status import TFDistJobStatus
from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"


def at(seconds: float) -> str:
    return rfc3339(NOW + timedelta(seconds=seconds))


def failed(suffix: str = "", seconds: float = 20) -> list[Any]:
    lost = pod(f"worker-1{suffix}", "F", exit_code=137, node="node-b", finished_at=at(seconds))
    return [pod(f"worker-0{suffix}"), lost]


def attempts(story: Lifecycle) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = story.status["attempts"]
    TFDistJobStatus.model_validate(story.status)
    return found


def settled(story: Lifecycle, pods: Any, after: float = 0, **changes: Any) -> None:
    """Reconcile twice: after the time in which the failure of a peer may be its root cause, and at once again."""
    story.reconcile(pods, after=after, **changes)
    story.reconcile(pods, after=10, **changes)


def test_the_first_attempt_begins_before_its_pods_are_created() -> None:
    story = Lifecycle()
    assert story.reconcile().creates
    assert attempts(story) == [{"attempt": 0, "startedAt": at(0), "fromStep": 0}]


def test_an_attempt_that_a_replica_ends_has_its_cause_and_the_next_one_its_checkpoint() -> None:
    # given
    story = Lifecycle(BOTH)
    saved = {"step": 50, "path": "/c"}
    story.reconcile(BOTH, after=15, report=report(70, 100, last_checkpoint=saved))
    # when
    settled(story, failed(), after=10)
    # then
    first, second = attempts(story)
    assert first == {
        "attempt": 0,
        "startedAt": at(0),
        "endedAt": at(20),
        "reason": "Crash",
        "rootCause": "worker-1",
        "node": "node-b",
        "fromStep": 0,
        "toStep": 70,
    }
    assert (second["attempt"], second["fromStep"], second.keys() & {"toStep", "endedAt"}) == (1, 50, set())
    # when all replicas run again
    again = [pod("worker-0-r1"), pod("worker-1-r1")]
    story.reconcile(again, after=25)
    assert attempts(story)[0]["secondsToRecover"] == 40
    # when they train
    story.reconcile(again, after=10, report=report(60, 100, attempt=1, last_checkpoint=saved))
    assert [a.get("secondsToRecover") for a in attempts(story)] == [40, None]
    assert (attempts(story)[1]["fromStep"], attempts(story)[1]["toStep"]) == (50, 60)


def test_the_same_plan_again_lists_no_attempt_twice() -> None:
    story = Lifecycle(BOTH)
    settled(story, failed(), after=25)
    known = attempts(story)
    for pods in (failed(), "worker-0-r1:P worker-1-r1:P", "worker-0-r1:R worker-1-r1:R"):
        story.reconcile(pods, after=5)
        assert [a["attempt"] for a in attempts(story)] == [0, 1]
    assert attempts(story)[0] | {"secondsToRecover": 0} == known[0] | {"secondsToRecover": 0}


def test_a_checkpoint_that_pods_save_while_they_end_is_where_the_next_attempt_begins() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=15, report=report(70, 100, last_checkpoint={"step": 50, "path": "/c"}))
    settled(story, failed(), after=10)
    saved = termination_message(step=72, lastCheckpoint={"step": 72, "path": "/c"})
    leader = pod("worker-0", "F", exit_code=42, message=saved)
    story.reconcile([leader, failed()[1]], after=5)
    story.reconcile([leader, failed()[1], pod("worker-0-r1"), pod("worker-1-r1")], after=5)
    story.reconcile("worker-0-r1:R worker-1-r1:R", after=5, report=report(80, 100, attempt=1))
    assert attempts(story)[1]["fromStep"] == 72


def test_a_requested_restart_has_its_reason_and_no_root_cause() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=30, restarted_at="now")
    first, second = attempts(story)
    assert (first["reason"], first["endedAt"], second["attempt"]) == ("RestartRequested", at(30), 1)
    assert "rootCause" not in first


def test_a_suspended_job_has_no_attempt_until_it_is_resumed() -> None:
    # given
    story = Lifecycle(BOTH)
    story.spec["runPolicy"] = {"suspend": True}
    story.reconcile(BOTH, after=10, generation=2)
    assert "endedAt" not in attempts(story)[0], "its replicas save"
    # when
    story.reconcile(after=10, generation=2)
    # then
    (only,) = attempts(story)
    assert (only["reason"], only["endedAt"]) == ("Suspended", at(20))
    # when
    story.spec["runPolicy"] = {"suspend": False}
    story.reconcile(after=1000, generation=3)
    story.reconcile("worker-0-r1:R worker-1-r1:R", after=30, generation=3)
    # then
    assert [a["startedAt"] for a in attempts(story)] == [at(0), at(1020)]
    assert attempts(story)[0]["secondsToRecover"] == 30, "from the resume"


def test_a_job_that_is_resumed_before_its_pods_have_ended_was_suspended() -> None:
    story = Lifecycle(BOTH)
    story.spec["runPolicy"] = {"suspend": True}
    story.reconcile(BOTH, after=10, generation=2)
    story.spec["runPolicy"] = {"suspend": False}
    story.reconcile([pod("worker-0", deleting=True)], after=5, generation=3)
    assert [(a["attempt"], a.get("reason")) for a in attempts(story)] == [(0, "Suspended"), (1, None)]


def test_the_end_of_training_ends_the_last_attempt_whatever_the_evaluation_does() -> None:
    story = Lifecycle(BOTH, **EVALUATED)
    story.reconcile([pod(f"worker-{i}", "S", message=termination_message(step=99)) for i in (0, 1)], after=30)
    ended = "worker-0:S worker-1:S"
    story.reconcile(f"{ended} evaluation-0:R evaluation-1:R", after=30)
    settled(story, f"{ended} evaluation-0:F evaluation-1:R", after=30)
    (only,) = attempts(story)
    assert (only["reason"], only["endedAt"], only["toStep"]) == ("TrainingSucceeded", at(30), 99)
    assert "rootCause" not in only


def test_a_job_that_only_evaluates_has_the_attempts_of_its_evaluation() -> None:
    story = Lifecycle(task="Evaluate", checkpoint=CHECKPOINT)
    story.reconcile()
    story.reconcile("evaluation-0:R evaluation-1:R", after=5)
    settled(story, "evaluation-0:R evaluation-1:F", after=5)
    assert [(a["attempt"], a.get("rootCause")) for a in attempts(story)] == [(0, "evaluation-1"), (1, None)]


def test_a_job_that_fails_ends_its_last_attempt_with_the_root_cause() -> None:
    story = Lifecycle(BOTH)
    story.reconcile([pod("worker-0", "F", exit_code=64, finished_at=at(20)), pod("worker-1")], after=30)
    (only,) = attempts(story)
    assert (only["reason"], only["rootCause"], only["endedAt"]) == ("UserError", "worker-0", at(20))
    story.reconcile(after=600)
    assert attempts(story) == [only], "nothing follows"


def test_a_deadline_that_ends_a_job_is_the_reason_without_a_root_cause() -> None:
    story = Lifecycle(BOTH, runPolicy={"activeDeadlineSeconds": 60})
    story.reconcile(BOTH, after=61)
    (only,) = attempts(story)
    assert (only["reason"], "rootCause" in only) == ("ActiveDeadlineExceeded", False)


def test_rounds_in_place_are_attempts_of_their_own() -> None:
    # given
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=5, report=launcher_report())
    assert (attempts(story)[0]["round"], len(attempts(story))) == (0, 1)
    # when
    waits = launcher_report(failure(1), number=1, waiting_for="worker-1 has not joined")
    story.reconcile(BOTH, after=15, report=waits)
    # then
    first, second = attempts(story)
    assert (first["attempt"], first["round"], first["reason"], first["rootCause"]) == (0, 0, "Crash", "worker-1")
    assert (second["attempt"], second["round"], "secondsToRecover" in first) == (0, 1, False)
    # when the launchers have met
    story.reconcile(BOTH, after=10, report=launcher_report(failure(1), number=1))
    assert attempts(story)[0]["secondsToRecover"] == 30
    assert story.reconcile(BOTH, after=10, report=launcher_report(failure(1), number=1)).status is None


def test_rounds_that_ended_between_two_reports_are_listed_with_their_causes() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=5, report=launcher_report())
    story.reconcile(BOTH, after=60, report=launcher_report(failure(1), failure(2, index=0), number=2))
    found = [(a["round"], a.get("rootCause")) for a in attempts(story)]
    assert found == [(0, "worker-1"), (1, "worker-0"), (2, None)]


def test_a_pod_that_is_replaced_alone_begins_one_attempt_with_the_next_round() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=5, report=launcher_report())
    settled(story, failed(), after=20, report=launcher_report())
    replaced = "worker-0:R worker-1-r1:R"
    story.reconcile(replaced, after=10, report=launcher_report())
    story.reconcile(replaced, after=10, report=launcher_report(failure(1), number=1))
    found = [(a["attempt"], a.get("round"), a.get("rootCause")) for a in attempts(story)]
    assert found == [(0, 0, "worker-1"), (1, 1, None)]


def test_training_that_continues_without_a_worker_repeats_no_step() -> None:
    story = Lifecycle(strategy="ParameterServer", chief={}, ps={"replicas": 1})
    story.reconcile()
    others = [pod("chief-0"), pod("ps-0"), pod("worker-0")]
    story.reconcile([*others, pod("worker-1")], after=5)
    done = report(70, 100, step_time_millis=100.0, last_checkpoint={"step": 10, "path": "/c"})
    done = type(done)(done.content.model_copy(update={"role": "chief"}), done.read_at)
    story.reconcile([*others, pod("worker-1")], after=20, report=done)
    settled(story, [*others, failed()[1]], after=5, report=done)
    first, second = attempts(story)
    assert (first["rootCause"], second["fromStep"], second["toStep"]) == ("worker-1", 70, 70)
    assert story.status["usage"]["lostSeconds"] == 0.0


def test_the_last_twenty_attempts_are_kept() -> None:
    story = Lifecycle(BOTH)
    for number in range(MAX_ATTEMPTS + 5):
        suffix = f"-r{number}" if number else ""
        story.reconcile([pod(f"worker-{i}{suffix}") for i in (0, 1)], after=5, restarted_at=f"{number}")
    found = [a["attempt"] for a in attempts(story)]
    assert found == list(range(found[0], found[0] + MAX_ATTEMPTS))
    assert found[-1] == MAX_ATTEMPTS + 5


@pytest.mark.parametrize("field", ["attempts", "usage", "history"])
def test_the_status_of_an_earlier_version_has_them_from_the_next_write_on(field: str) -> None:
    # given a job that runs
    story = Lifecycle(BOTH)
    for name in ("attempts", "usage", "history"):
        story.status.pop(name, None)
    assert story.reconcile(BOTH, after=60).status is None, "an upgrade alone writes nothing"
    # when
    story.reconcile(BOTH, after=5, report=report(70, 100))
    # then
    assert story.status[field]
    assert attempts(story)[0]["startedAt"] == at(0)
