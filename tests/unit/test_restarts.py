"""The rules of restarts that the controller and the launchers share, and how a launcher applies them."""

from itertools import pairwise
from typing import Any

import pytest

from tfdist.contract import LaunchMember, LaunchMemberRange, LeaderSettings, Phase, Restarts, Role
from tfdist.contract_reports import ProgressReport
from tfdist.failure_classification import DISRUPTION, Action, Classification, classify
from tfdist.restarts import budget, stall
from tfdist.restarts.budget import ApplicationError, BudgetDecision
from tfdist.restarts.stall import progress_of
from tfdist.termination import termination_message, termination_summary
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.failures import ProcessFailure
from tfdist_launch.leader import Leader
from tfdist_launch.messages import ExitResult, Heartbeat, Hello, ProcessExited
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.slots import ProcessState, Slot
from tfdist_launch.stall_detector import StallDetector, straggler

ERROR = Classification("ApplicationError", Action.RESTART)
FINAL = Classification("UserError", Action.FAIL)


def test_a_restart_that_counts_uses_the_budget() -> None:
    decision = budget.decide(
        Restarts(counted=4, since_checkpoint=1), ERROR, 3, ran_seconds=1, repeated=False, jitter_key=""
    )
    assert (decision.counted, decision.final) == (True, "")
    assert decision.restarts == Restarts(counted=5, since_checkpoint=2, short_attempts=1)


def test_an_exhausted_budget_ends_the_gang_and_its_counters_stay() -> None:
    used = Restarts(counted=4, since_checkpoint=3)
    decision = budget.decide(used, ERROR, 3, ran_seconds=1, repeated=False, jitter_key="")
    assert (decision.counted, decision.final, decision.restarts) == (True, "BackoffLimitExceeded", used)
    assert "runPolicy.backoffLimit of 3 exceeded" in decision.remedy


def test_a_new_checkpoint_resets_the_budget_and_an_old_one_does_not() -> None:
    used = Restarts(counted=4, uncounted=9, since_checkpoint=3, uncounted_since_checkpoint=9, checkpoint_step=100)
    assert budget.at_checkpoint(used, 100) is used
    assert budget.at_checkpoint(used, 101) == Restarts(counted=4, uncounted=9, checkpoint_step=101)


@pytest.mark.parametrize(("before", "counted"), [(0, False), (9, False), (10, True)])
def test_a_disruption_counts_after_ten_without_a_new_checkpoint(before: int, counted: bool) -> None:
    used = Restarts(uncounted=20, uncounted_since_checkpoint=before)
    decision = budget.decide(used, DISRUPTION, 3, ran_seconds=1, repeated=False, jitter_key="")
    assert decision.counted is counted
    assert (decision.restarts.counted, decision.restarts.uncounted) == ((1, 20) if counted else (0, 21))


def delay(kind: Classification, ran_seconds: float, **used: int) -> tuple[float, int]:
    """Return the delay after an attempt, rounded up to the delay without jitter, and the short attempts in a row."""
    decision = budget.decide(Restarts(**used), kind, 1000, ran_seconds=ran_seconds, repeated=False, jitter_key="a")
    steps = (0, 10, 20, 40, 80, 160, 300)
    return next(step for step in steps if step >= decision.delay_seconds), decision.restarts.short_attempts


@pytest.mark.parametrize(
    ("kind", "short", "since_checkpoint", "expected"),
    [
        (ERROR, 0, 0, 0),
        (ERROR, 1, 1, 10),
        (ERROR, 2, 2, 20),
        (ERROR, 20, 20, 300),
        (ERROR, 9, 0, 0),
        (ERROR, 10, 0, 10),
        (ERROR, 11, 1, 20),
        (ERROR, 3, 9, 40),
        (DISRUPTION, 9, 5, 0),
        (DISRUPTION, 10, 5, 10),
        (DISRUPTION, 40, 0, 300),
    ],
)
def test_the_delay_depends_on_the_short_attempts_in_a_row_of_which_ten_with_progress_have_none(
    kind: Classification, short: int, since_checkpoint: int, expected: float
) -> None:
    assert delay(kind, 599, short_attempts=short, since_checkpoint=since_checkpoint) == (expected, short + 1)
    assert delay(kind, 600, short_attempts=short, since_checkpoint=since_checkpoint) == (0, 0)


@pytest.mark.parametrize(
    ("meaning", "repeated", "reason"),
    [(FINAL, False, "UserError"), (ERROR, True, "RepeatedError")],
    ids=["an error of the user", "the same error twice"],
)
def test_a_failure_after_which_a_restart_would_end_the_same_is_final_and_does_not_count(
    meaning: Classification, repeated: bool, reason: str
) -> None:
    decision = budget.decide(Restarts(), meaning, 3, ran_seconds=1, repeated=repeated, jitter_key="")
    assert (decision.final, decision.counted, decision.restarts) == (reason, False, Restarts())


@pytest.mark.parametrize(
    ("last", "same"),
    [
        (ApplicationError(1, "ValueError: shapes (3,) and (4,)"), True),
        (ApplicationError(1, "ValueError: shapes (5,) and (4,)"), True),
        (ApplicationError(1, "ValueError: no column a"), False),
        (ApplicationError(3, "ValueError: shapes (3,) and (4,)"), False),
        (None, False),
    ],
    ids=["equal", "other numbers", "another message", "another exit code", "no error before"],
)
def test_an_error_repeats_one_with_the_same_exit_code_and_message(last: ApplicationError | None, same: bool) -> None:
    assert ApplicationError(1, "ValueError: shapes (3,) and (4,)").repeats(last) is same


def test_an_error_without_a_message_repeats_none() -> None:
    assert not ApplicationError(1, "").repeats(ApplicationError(1, ""))


def deadline(setting: int | str, *phases: Phase, changes: int = 5, pause: float = 0.0, has_step: bool = True) -> float:
    pauses = stall.Pauses(changes, pause, frozenset(phases), has_step)
    return stall.deadline_seconds(setting, pauses, learned_minimum=60.0)


def test_a_number_is_the_deadline_of_a_step() -> None:
    assert deadline(60, Phase.TRAINING, changes=0, pause=50.0) == 60


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.TRAINING}))
def test_a_phase_without_steps_of_any_replica_has_five_minutes_for_any_deadline(phase: Phase) -> None:
    assert deadline(60, Phase.TRAINING, phase) == 300
    assert deadline(600, phase) == 600


@pytest.mark.parametrize(
    ("changes", "has_step", "phase", "seconds"),
    [
        (0, False, Phase.STARTING, 7200),
        (4, False, Phase.TRAINING, 7200),
        (2, True, Phase.TRAINING, 1800),
        (4, True, Phase.EVALUATING, 1800),
        (5, True, Phase.TRAINING, 60),
        (5, True, Phase.EVALUATING, 1800),
        (5, True, Phase.COMPILING, 1800),
        (99, True, Phase.STARTING, 7200),
    ],
)
def test_auto_allows_hours_before_the_first_step_and_less_the_more_it_has_seen(
    changes: int, has_step: bool, phase: Phase, seconds: float
) -> None:
    assert deadline("Auto", phase, changes=changes, pause=1.0, has_step=has_step) == seconds


@pytest.mark.parametrize("changes", [0, 4, 5])
def test_auto_is_never_less_than_ten_times_the_longest_pause(changes: int) -> None:
    assert deadline("Auto", Phase.TRAINING, changes=changes, pause=2700.0) == 27000


@pytest.mark.parametrize(("pause", "seconds"), [(1.0, 60), (6.0, 60), (30.0, 300)])
def test_auto_is_ten_times_the_longest_pause_and_at_least_its_minimum(pause: float, seconds: float) -> None:
    assert deadline("Auto", Phase.TRAINING, pause=pause) == seconds


@pytest.mark.parametrize(
    "change",
    [
        {"step": 8},
        {"phase": "checkpointing"},
        {"round": 1},
        {"lastCheckpoint": {"step": 7, "path": "/ckpt/7"}},
        {"evaluation": {"step": 7, "metrics": {}}},
    ],
    ids=["step", "phase", "round", "checkpoint", "evaluation"],
)
def test_a_report_with_another_value_of_these_is_progress(change: dict[str, Any]) -> None:
    assert progress_of(progress_report(**change)) != progress_of(progress_report())


@pytest.mark.parametrize(("phase", "progresses"), [("evaluating", True), ("training", False)])
def test_the_number_of_examples_is_progress_of_an_evaluation_only(phase: str, progresses: bool) -> None:
    before, after = (progress_report(phase=phase, examples=number) for number in (100, 200))
    assert (progress_of(before) != progress_of(after)) is progresses


def progress_report(**fields: Any) -> ProgressReport:
    """Return the report of a replica that trains, at step 7, with other values of some fields."""
    return ProgressReport.model_validate({"index": 0, "attempt": 0, "phase": "training", "step": 7, **fields})


def test_a_termination_message_is_json_with_the_required_fields_of_the_contract() -> None:
    message = termination_message(' {"reason": "Bug", "message": "ValueError: x", "step": 7, "newer": 1}')
    assert message is not None
    assert (message.reason, message.message, message.step) == ("Bug", "ValueError: x", 7)


@pytest.mark.parametrize("text", ["", "ValueError: x", '{"message": "x"}', '{"reason": "Bug"}', "{", "[]"])
def test_another_text_is_no_termination_message(text: str) -> None:
    assert termination_message(text) is None


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ('{"reason": "Bug", "message": "ValueError: x"}', "ValueError: x"),
        ('{"reason": "Bug", "message": "a\\u001b[2Jb"}', "a [2Jb"),
        ("first\nlast \n", "last"),
        ("", ""),
    ],
    ids=["the message of the JSON", "without control characters", "the cause in a text", "none"],
)
def test_a_summary_is_the_message_of_the_json_or_the_cause_in_the_text(text: str, summary: str) -> None:
    assert termination_summary(text) == summary


def limits(**settings: Any) -> RestartPolicy:
    return RestartPolicy.of(LeaderSettings(member_ranges=[], **settings), "uid-1")


def failure(code: int, message: str = "") -> ProcessFailure:
    return ProcessFailure(role=Role.WORKER, index=0, exit_code=code, message=message)


def rule(of: RestartPolicy, cause: ProcessFailure, checkpoint: int = -1, ran: float = 1.0) -> BudgetDecision:
    return of.decide(classify(cause, of.failure_policy), cause, checkpoint, ran)


def test_delays_grow_until_a_checkpoint_and_the_limit_ends_the_gang() -> None:
    some = limits(backoff_limit=3, first_delay_seconds=10.0)
    delays = [rule(some, failure(137)).delay_seconds for _ in range(3)]
    assert delays[0] == 0
    assert 8 <= delays[1] <= 10
    assert 16 <= delays[2] <= 20
    assert rule(some, failure(137)).final == "BackoffLimitExceeded"
    at_once = rule(some, failure(137), checkpoint=100)
    assert (at_once.counted, at_once.delay_seconds, at_once.final) == (True, 0, "")
    assert (some.restarts.counted, some.restarts.since_checkpoint) == (4, 1)


def test_rounds_that_report_a_new_checkpoint_each_second_are_delayed_after_ten_until_one_runs_for_ten_minutes() -> None:
    some = limits(backoff_limit=1)
    delays = [rule(some, failure(137), checkpoint=step).delay_seconds for step in range(20)]
    assert delays[:10] == [0.0] * 10
    assert all(10 <= earlier < later or later >= 240 for earlier, later in pairwise(delays[11:]))
    assert rule(some, failure(137), checkpoint=20, ran=600.0).delay_seconds == 0


@pytest.mark.parametrize("independent", [frozenset(), frozenset({Role.WORKER})], ids=["together", "alone"])
@pytest.mark.parametrize(("ran", "waits"), [(599.0, True), (600.0, False)])
def test_a_leader_counts_the_time_of_an_attempt_from_the_start_of_its_round(
    independent: frozenset[Role], ran: float, waits: bool
) -> None:
    """Given launchers that connect late; when a process ends, then only the time since it was started counts."""
    members = [LaunchMemberRange(role=Role.WORKER, index=0, count=1)]
    settings = LeaderSettings(member_ranges=members, prior_restarts=Restarts(short_attempts=20))
    policy, history = RestartPolicy.of(settings, "uid-1"), FailureHistory("x", lambda: "t")
    lead = Leader(settings, policy, history, independent=independent, standby=False, saving_seconds=1.0)
    lead.member_connected(1, Hello(job="uid-1", rank=0, attempt=0, started_at=1, highest_round=-1), 5000.0)
    end = 5000.0 + ran
    lead.handle_message(1, ProcessExited(round=0, outcome=ExitResult(exit_code=137)), end)
    assert (max(lead.not_before, lead.slots[0].not_before) > end + 200) is waits


def test_what_earlier_attempts_have_used_counts() -> None:
    some = limits(backoff_limit=3, prior_restarts=Restarts(counted=5, since_checkpoint=3, checkpoint_step=100))
    assert rule(some, failure(137), checkpoint=100).final == "BackoffLimitExceeded"


def test_the_same_error_twice_is_final_though_a_lost_peer_came_between() -> None:
    some = limits(backoff_limit=10)
    assert not rule(some, failure(70, "ValueError: x")).final
    assert not rule(some, failure(75, "Socket closed")).final
    assert rule(some, failure(70, "ValueError: x")).final == "RepeatedError"


def test_the_same_error_is_not_final_after_a_checkpoint_another_error_or_silence() -> None:
    some = limits(backoff_limit=10)
    for message, checkpoint in (("x", 1), ("x", 2), ("y", 2), ("x", 2), ("", 2), ("x", 2)):
        assert not rule(some, failure(70, message), checkpoint).final


def slot(
    index: int, step: int | None, *, alive: bool = True, phase: str = "training", millis: float | None = None
) -> Slot:
    report: Any = {
        "role": "worker",
        "index": index,
        "attempt": 0,
        "phase": phase,
        "step": step,
        "stepTimeMillis": millis,
    }
    member = LaunchMember(role=Role.WORKER, index=index)
    return Slot(
        member, process=ProcessState.RUNNING, heartbeat=Heartbeat.model_validate({"alive": alive, "report": report})
    )


def test_a_gang_that_stands_still_for_its_deadline_is_stalled_and_not_before() -> None:
    watch = StallDetector(60)
    assert watch.stalled_seconds([slot(0, 1), slot(1, 1)], 0, 0.0) is None
    assert watch.stalled_seconds([slot(0, 2), slot(1, 1)], 0, 59.0) is None
    assert watch.stalled_seconds([slot(0, 2), slot(1, 1)], 0, 118.0) is None
    assert watch.stalled_seconds([slot(0, 2), slot(1, 1)], 0, 120.0) == 61.0
    assert watch.stalled_seconds([slot(0, 2), slot(1, 1)], 1, 121.0) is None, "a new round has its own time"


def test_a_deadline_is_learned_from_the_longest_pause() -> None:
    watch = StallDetector("Auto")
    for step in range(6):
        assert watch.stalled_seconds([slot(0, step)], 0, step * 20.0) is None
    assert watch.stalled_seconds([slot(0, 5)], 0, 100.0 + 199.0) is None
    assert watch.stalled_seconds([slot(0, 5)], 0, 100.0 + 201.0) == 201.0


@pytest.mark.parametrize(
    ("seen", "limit"),
    [
        pytest.param([(0.0, 0, None)], 7200, id="no step"),
        pytest.param([(0.0, 0, None), (8.0, 1, 800.0)], 1800, id="one step"),
        pytest.param([(0.0, 0, None), (900.0, 1, 800.0)], 9000, id="the first batch took 15 minutes"),
        pytest.param([(2700.0, 1000, 2700.0)], 27000, id="one report for each epoch"),
        pytest.param([(0.0, 0, None), (10.0, 500, 20.0), (10.5, 500, 20.0)], 1800, id="a resumed job"),
    ],
)
def test_a_hang_in_the_first_epoch_is_found_by_auto_and_silence_that_is_usual_is_none(
    seen: list[tuple[float, int, float | None]], limit: float
) -> None:
    """Given a round that begins at 0 with these times, steps and durations of a step; when nothing follows, then..."""
    watch = StallDetector("Auto")
    assert watch.stalled_seconds([Slot(slot(0, 0).member)], 0, 0.0) is None
    for now, step, millis in seen:
        gang = [slot(0, step, millis=millis), slot(1, step, millis=millis)]
        assert watch.stalled_seconds(gang, 0, now) is None
    last = watch.changed_at
    assert watch.stalled_seconds(gang, 0, last + limit - 1) is None
    assert watch.stalled_seconds(gang, 0, last + limit + 1) == limit + 1


def test_the_first_reports_of_many_members_teach_auto_nothing() -> None:
    """Given eight workers that begin one after another; when their first batch takes minutes, then none is stalled."""
    watch = StallDetector("Auto")
    for count in range(1, 9):
        assert watch.stalled_seconds([slot(rank, 0) for rank in range(count)], 0, float(count)) is None
    assert watch.stalled_seconds([slot(rank, 0) for rank in range(8)], 0, 1000.0) is None


def test_a_program_that_reports_nothing_is_never_stalled() -> None:
    watch = StallDetector("Auto")
    silent = Slot(slot(0, 0).member, process=ProcessState.RUNNING)
    assert watch.stalled_seconds([silent], 0, 0.0) is None
    assert watch.stalled_seconds([silent], 0, 10.0**6) is None


def name_of_straggler(*slots: Slot) -> str | None:
    found = straggler(slots)
    return found.name if found else None


def test_who_shows_no_sign_of_life_is_behind_and_else_who_is_at_the_lowest_step() -> None:
    assert name_of_straggler(slot(0, 5), slot(1, 4), slot(2, 6)) == "worker-1"
    assert name_of_straggler(slot(0, 5), slot(1, 4), slot(2, 6, alive=False)) == "worker-2"


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param([slot(0, 1), slot(1, 1)], id="at the same step"),
        pytest.param([slot(0, 10, millis=5.0), slot(1, 13, millis=5.0)], id="reports are not that exact"),
        pytest.param([slot(0, 10), slot(1, None)], id="only the chief reports"),
        pytest.param([slot(0, 5), slot(1, 4), slot(2, 4)], id="two of them"),
        pytest.param([slot(0, 5)], id="alone"),
        pytest.param([slot(0, None), slot(1, None)], id="no steps"),
    ],
)
def test_no_member_is_named_whose_report_does_not_show_that_it_is_behind(slots: list[Slot]) -> None:
    assert name_of_straggler(*slots) is None


def test_a_member_that_is_a_slow_step_behind_is_named() -> None:
    assert name_of_straggler(slot(0, 11, millis=3000.0), slot(1, 10, millis=3000.0)) == "worker-1"


@pytest.mark.parametrize(
    ("name", "steps", "text"),
    [
        ("worker-1", [1, 2], "worker-1 is behind"),
        ("", [1, 1], "no replica is known to be behind, all that report are at step 1"),
        ("", [13, 10, None], "no replica is known to be behind, all that report are at steps 10 to 13"),
        ("", [None], "no replica is known to be behind"),
        ("", [], "no replica is known to be behind"),
    ],
)
def test_the_message_of_a_stall_names_who_is_behind_or_where_all_are(
    name: str, steps: list[int | None], text: str
) -> None:
    message = stall.stall_text(60.4, name, [stall.StepPosition(step) for step in steps])
    assert message == f"no step was completed for 60 s; {text}"


def test_workers_with_different_numbers_of_batches_are_named_as_such() -> None:
    message = stall.stall_text(60.0, "", [stall.StepPosition(1, 8.0, 60), stall.StepPosition(1, 8.0, 30)])
    assert message.endswith("at step 1; they expect 30 to 60 steps: all need the same number of batches")
