"""What a failure leads to: another round, when, and what it counts."""

from typing import Any

from tfdist.contract import LaunchMember, LeaderSettings, Restarts, Role
from tfdist.failure_classification import classify
from tfdist_launch.failures import ProcessFailure, termination_summary
from tfdist_launch.messages import Heartbeat
from tfdist_launch.restart_policy import RestartDecision, RestartPolicy
from tfdist_launch.slots import ProcessState, Slot
from tfdist_launch.stall_detector import StallDetector, straggler


def limits(**settings: Any) -> RestartPolicy:
    return RestartPolicy.of(LeaderSettings(members=[], **settings), "uid-1")


def failure(code: int, message: str = "") -> ProcessFailure:
    return ProcessFailure(role=Role.WORKER, index=0, exit_code=code, message=message)


def rule(of: RestartPolicy, cause: ProcessFailure, checkpoint: int = -1) -> RestartDecision:
    return of.decide(classify(cause, of.failure_policy), cause, checkpoint)


def test_delays_grow_until_a_checkpoint_and_the_limit_ends_the_gang() -> None:
    some = limits(backoff_limit=3, first_delay_seconds=10.0)
    delays = [rule(some, failure(137)).delay_seconds for _ in range(3)]
    assert delays[0] == 0
    assert 8 <= delays[1] <= 10
    assert 16 <= delays[2] <= 20
    assert rule(some, failure(137)).final == "BackoffLimitExceeded"
    assert rule(some, failure(137), checkpoint=100) == RestartDecision(counted=True)
    assert (some.restarts.counted, some.restarts.since_checkpoint) == (4, 1)


def test_what_earlier_attempts_have_used_counts() -> None:
    some = limits(backoff_limit=3, prior_restarts=Restarts(counted=5, since_checkpoint=3, checkpoint_step=100))
    assert rule(some, failure(137), checkpoint=100).final == "BackoffLimitExceeded"


def test_the_same_error_twice_is_final_though_a_lost_peer_came_between() -> None:
    some = limits(backoff_limit=10)
    assert not rule(some, failure(70, "ValueError: x")).final
    assert not rule(some, failure(75, "Socket closed")).final
    assert rule(some, failure(70, "ValueError: x")).final == "RepeatedError"


def test_errors_that_differ_in_numbers_only_are_the_same() -> None:
    some = limits(backoff_limit=10)
    assert not rule(some, failure(70, "RuntimeError: thread 0x7f31 at 12:01:02")).final
    assert rule(some, failure(70, "RuntimeError: thread 0x7aa0 at 12:09:44")).final == "RepeatedError"


def test_the_same_error_is_not_final_after_a_checkpoint_another_error_or_silence() -> None:
    some = limits(backoff_limit=10)
    for message, checkpoint in (("x", 1), ("x", 2), ("y", 2), ("x", 2), ("", 2), ("x", 2)):
        assert not rule(some, failure(70, message), checkpoint).final


def test_what_the_cluster_causes_counts_after_ten_times() -> None:
    some = limits(backoff_limit=10)
    assert [rule(some, failure(42)).counted for _ in range(11)] == [False] * 10 + [True]


def test_a_summary_is_the_message_of_the_json_or_the_cause_in_the_text() -> None:
    assert termination_summary('{"reason": "Bug", "message": "ValueError: x"}') == "ValueError: x"
    assert termination_summary("first\nlast \n") == "last"
    assert termination_summary("") == ""


def slot(index: int, step: int, *, alive: bool = True, phase: str = "training") -> Slot:
    report: Any = {"role": "worker", "index": index, "attempt": 0, "phase": phase, "step": step}
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


def test_compiling_and_saving_have_five_minutes() -> None:
    watch = StallDetector(60)
    slots = [slot(0, 1, phase="compiling"), slot(1, 1)]
    watch.stalled_seconds(slots, 0, 0.0)
    assert watch.stalled_seconds(slots, 0, 299.0) is None
    assert watch.stalled_seconds(slots, 0, 301.0) == 301.0


def test_a_deadline_is_learned_from_the_longest_pause() -> None:
    watch = StallDetector("Auto")
    for step in range(6):
        assert watch.stalled_seconds([slot(0, step)], 0, step * 20.0) is None
    assert watch.stalled_seconds([slot(0, 5)], 0, 100.0 + 199.0) is None
    assert watch.stalled_seconds([slot(0, 5)], 0, 100.0 + 201.0) == 201.0


def test_who_shows_no_sign_of_life_is_behind_and_else_who_is_at_the_lowest_step() -> None:
    assert straggler([slot(0, 5), slot(1, 4), slot(2, 6)]).name == "worker-1"
    assert straggler([slot(0, 5), slot(1, 4), slot(2, 6, alive=False)]).name == "worker-2"
