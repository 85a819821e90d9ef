"""Jobs that run and get nowhere."""

import pytest
from support.factories import NOW, Story, created, pod, report, told

from tfdist_operator.observed.view import Evidence, Pace
from tfdist_operator.planner import Plan
from tfdist_operator.status.clock import rfc3339

BOTH = "worker-0:R worker-1:R"
FIXED = {"runPolicy": {"progressDeadlineSeconds": 60}}
AUTO = {"runPolicy": {"progressDeadlineSeconds": "Auto"}}
MOVED = Pace(attempt=0, moved_at=rfc3339(NOW), moves=1)


def stall(story: Story, after: float = 60) -> Plan:
    """Have a job be found stalled: it is asked where its replicas stand, and looked at again."""
    todo = story.look(BOTH, after=after, pace=MOVED)
    evidence = Evidence(todo.ask_about, "worker-1", "worker-1: in all_reduce")
    return story.look(BOTH, pace=MOVED, evidence=evidence)


def test_a_job_that_moves_is_looked_at_again_when_it_could_have_stalled() -> None:
    story = Story(BOTH, **FIXED)
    todo = story.look(BOTH, after=20, pace=MOVED)
    assert todo.ask == ()
    assert todo.requeue_after_seconds == pytest.approx(40)


@pytest.mark.parametrize(("phase", "asked"), [("compiling", False), ("training", True)])
def test_a_start_gets_five_minutes_whatever_the_deadline_of_a_step_is(phase: str, asked: bool) -> None:
    story = Story(BOTH, **FIXED)
    todo = story.look(BOTH, after=61, pace=MOVED, report=report(0, phase=phase))
    assert bool(todo.ask) is asked


def test_before_a_stall_is_acted_on_every_replica_is_asked_where_it_stands() -> None:
    story = Story(BOTH, **FIXED)
    todo = story.look(BOTH, after=60, pace=MOVED)
    assert [f"{q.role}-{q.index}" for q in todo.ask] == ["worker-0", "worker-1"]
    assert (created(todo), story.status["phase"]) == ([], "Running")


def test_a_stall_restarts_the_gang_and_names_who_is_behind_with_the_stacks() -> None:
    story = Story(BOTH, **FIXED)
    todo = stall(story)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert told(todo) == ["Stalled", "Restarting"]
    assert story.says("Stalled") == ("True", "NoProgress")
    failure = story.status["failures"][-1]
    assert (failure["reason"], failure["pod"], failure["counted"]) == ("Stalled", "fashion-worker-1", True)
    assert failure["stacks"] == "worker-1: in all_reduce"
    assert "no step was completed for 60 s; worker-1 is behind" in story.status["summary"]["message"]


def test_a_stall_is_over_when_steps_are_completed_again() -> None:
    story = Story(BOTH, **FIXED)
    stall(story)
    next_attempt = "worker-0-r1:R worker-1-r1:R"
    story.look(next_attempt)
    assert story.says("Stalled") == ("True", "NoProgress")
    story.look(next_attempt, pace=Pace(attempt=1, moved_at=rfc3339(story.now)))
    assert story.says("Stalled") == ("False", "Progress")


def test_answers_about_an_earlier_stall_are_not_taken_for_those_of_this_one() -> None:
    story = Story(BOTH, **FIXED)
    asked = story.look(BOTH, after=60, pace=MOVED)
    old = Evidence(asked.ask_about, "worker-1", "")
    again = Pace(attempt=0, moved_at=rfc3339(story.now), moves=2)
    todo = story.look(BOTH, after=60, pace=again, evidence=old)
    assert created(todo) == []
    assert todo.ask_about != asked.ask_about


def test_the_pace_of_an_earlier_attempt_stalls_nobody() -> None:
    story = Story(BOTH, **FIXED)
    story.look("worker-0:R worker-1:F")
    todo = story.look("worker-0-r1:R worker-1-r1:R", after=1000, pace=MOVED)
    assert (todo.ask, story.status["phase"]) == ((), "Running")


def test_a_program_that_reports_nothing_is_never_called_stalled() -> None:
    story = Story(BOTH, **FIXED)
    assert story.look(BOTH, after=10**6).ask == ()


def test_a_job_without_a_deadline_is_never_called_stalled() -> None:
    story = Story(BOTH)
    assert story.look(BOTH, after=10**6, pace=MOVED).ask == ()


def test_auto_judges_nobody_before_it_has_seen_five_moves() -> None:
    story = Story(BOTH, **AUTO)
    slow = Pace(attempt=0, moved_at=rfc3339(NOW), longest_gap_seconds=1, moves=4)
    assert story.look(BOTH, after=10**6, pace=slow).ask == ()


@pytest.mark.parametrize(("gap", "deadline"), [(1.0, 120), (30.0, 300)])
def test_auto_allows_ten_times_the_longest_pause_and_at_least_two_minutes(gap: float, deadline: float) -> None:
    story = Story(BOTH, **AUTO)
    pace = Pace(attempt=0, moved_at=rfc3339(NOW), longest_gap_seconds=gap, moves=5)
    assert story.look(BOTH, pace=pace).requeue_after_seconds == pytest.approx(deadline)
    assert len(story.look(BOTH, after=deadline, pace=pace).ask) == 2


def test_a_job_that_stalls_again_and_again_fails_by_its_limit() -> None:
    story = Story(BOTH, runPolicy={"progressDeadlineSeconds": 60, "backoffLimit": 0})
    stall(story)
    assert story.says("Failed") == ("True", "BackoffLimitExceeded")
    assert "worker-1 is behind" in story.message("Failed")


def test_the_report_of_a_step_is_the_progress_and_not_a_stall() -> None:
    story = Story(BOTH, **FIXED)
    story.look([pod("worker-0"), pod("worker-1")], pace=MOVED, report=report(7))
    assert story.status["progress"]["step"] == 7
