"""The failure policy: which replicas restart, when, whether it counts, on which nodes, and when the job fails."""

from itertools import pairwise
from typing import Any

import pytest
from support.factories import Lifecycle, condition, created, deleted, event_reasons, pod, termination_message

from tfdist.planner import Plan
from tfdist.restarts.budget import LONG_ATTEMPT_SECONDS
from tfdist.timestamps import parse_time, rfc3339

BOTH = "worker-0:R worker-1:R"
SAVED = {"step": 100, "path": "/ckpt/fashion/100", "time": "2030-01-02T03:04:00Z"}


def run(attempt: int) -> str:
    return f"worker-0-r{attempt}:R worker-1-r{attempt}:R" if attempt else BOTH


def crash(job: Lifecycle, attempt: int, code: int = 137, ran: float = 1, **fields: object) -> Plan:
    """Have worker 1 crash in an attempt that ran for so many seconds, and wait until the next one runs."""
    suffix = f"-r{attempt}" if attempt else ""
    times = {"scheduled_at": rfc3339(job.now)}
    pods = [pod(f"worker-0{suffix}", **times), pod(f"worker-1{suffix}", "F", exit_code=code, **times, **fields)]
    todo = job.reconcile(pods, after=ran)
    if job.status["phase"] != "Failed":
        job.reconcile(after=todo.requeue_after_seconds or 0)
        job.reconcile(run(attempt + 1))
    return todo


def test_the_delays_between_restarts_that_count_double_up_to_five_minutes() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 20})
    delays = [crash(job, attempt).requeue_after_seconds or 0 for attempt in range(9)]
    assert delays[0] == 0
    for delay, longest in zip(delays[1:], [10, 20, 40, 80, 160, 300, 300, 300], strict=True):
        assert 0.8 * longest - 1 <= delay <= longest


def crashes_within_an_hour(job: Lifecycle, begin: int = 0, **fields: Any) -> list[float]:
    """Return when attempts from `begin` on end, each of which crashes after a second and reports a new checkpoint."""
    start, ends, attempt = job.now, [], begin
    while (job.now - start).total_seconds() < 3600:
        saved = {"lastCheckpoint": SAVED | {"step": attempt}}
        crash(job, attempt, message=termination_message(message=f"error {attempt}", **saved), **fields)
        ends.append((job.now - start).total_seconds())
        attempt += 1
    return ends


def pauses(ends: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(ends)]


@pytest.mark.parametrize(
    "fields", [{}, {"code": 42}, {"disrupted": True, "code": 143}], ids=["an error", "a preemption", "a disruption"]
)
def test_a_program_that_reports_a_new_checkpoint_each_second_restarts_ten_times_and_then_with_delays(
    fields: dict[str, Any],
) -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 1})
    first = crashes_within_an_hour(job, **fields)
    assert max(pauses(first[:10])) <= 1, "an honest job does not wait"
    assert 8 <= pauses(first)[9] <= 11
    assert len(first) <= 30
    assert job.status["phase"] == "Running", "its budget starts again at each checkpoint"
    assert len(crashes_within_an_hour(job, begin=len(first), **fields)) <= 16


def test_errors_and_disruptions_in_turn_do_not_end_the_back_off_of_each_other() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 1000})
    delays = [crash(job, n, disrupted=n % 2 == 0).requeue_after_seconds or 0 for n in range(30)]
    assert min(delays[20:]) > 200


@pytest.mark.parametrize(("ran", "waits"), [(LONG_ATTEMPT_SECONDS - 2, True), (LONG_ATTEMPT_SECONDS, False)])
def test_only_an_attempt_of_ten_minutes_ends_the_back_off(ran: float, waits: bool) -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 20})
    for attempt in range(6):
        crash(job, attempt)
    saved = termination_message(last_checkpoint=SAVED)
    assert bool(crash(job, 6, ran=ran).requeue_after_seconds) is waits
    again = [crash(job, attempt, message=saved).requeue_after_seconds or 0 for attempt in (7, 8)]
    assert again[0] == 0, "after a new checkpoint the first restart has no delay"
    assert again[1] <= 20


def test_a_gang_whose_pods_are_evicted_one_after_the_other_within_a_minute_restarts_at_once_each_time() -> None:
    job = Lifecycle(BOTH)
    crash(job, 0, ran=3600, disrupted=True)
    assert [crash(job, n, ran=10, disrupted=True).requeue_after_seconds for n in range(1, 7)] == [None] * 6


def test_a_gang_that_has_run_for_long_restarts_at_once_though_its_pod_is_gone() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 100})
    for attempt in range(14):
        crash(job, attempt, disrupted=True, message=termination_message(last_checkpoint=SAVED | {"step": attempt}))
    assert job.reconcile("worker-0-r14:R", after=LONG_ATTEMPT_SECONDS).requeue_after_seconds is None
    assert job.status["attempt"] == 15


def test_the_delays_of_two_jobs_differ_and_those_of_one_job_are_the_same_in_every_reconcile() -> None:
    job = Lifecycle(BOTH)
    crash(job, 0)
    failed = [pod("worker-0-r1"), pod("worker-1-r1", "F")]
    before = job.status
    first = job.reconcile(failed).requeue_after_seconds
    job.status = before
    assert job.reconcile(failed).requeue_after_seconds == first


def test_the_status_has_the_end_of_the_backoff_and_is_written_once() -> None:
    job = Lifecycle(BOTH)
    crash(job, 0)
    job.reconcile([pod("worker-0-r1"), pod("worker-1-r1", "F")])
    begin = job.status["gangs"]["training"]["retryAfter"]
    assert f"attempt 2 begins at {begin}: worker-1" in job.message("PodsReady")
    again = job.reconcile("worker-1-r1:F", after=1)
    assert (again.status, created(again), event_reasons(again)) == (None, [], [])
    assert again.requeue_after_seconds == pytest.approx((parse_time(begin) - job.now).total_seconds())


def test_the_limit_allows_as_many_restarts_and_no_more() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 2})
    crash(job, 0)
    crash(job, 1)
    assert job.status["phase"] == "Running"
    crash(job, 2)
    assert job.condition_status("Failed") == ("True", "BackoffLimitExceeded")
    assert job.status["restarts"] == {"counted": 2, "uncounted": 0, "sinceCheckpoint": 2}
    text = job.message("Failed")
    assert "worker-1 (pod fashion-worker-1-r2, node node-a) ended with exit code 137" in text
    assert "runPolicy.backoffLimit" in text
    assert "kubectl logs -n team fashion-worker-1-r2" in text


def test_the_limit_starts_again_when_an_attempt_has_written_a_checkpoint() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 1})
    crash(job, 0)
    todo = crash(job, 1, message=termination_message(last_checkpoint=SAVED))
    assert todo.requeue_after_seconds is None, "the delays start again as well"
    assert job.status["restarts"] == {"counted": 2, "uncounted": 0, "sinceCheckpoint": 1}
    crash(job, 2, message=termination_message(last_checkpoint=SAVED))
    assert job.status["phase"] == "Failed", "it is not a new one any more"


def test_ten_restarts_that_the_cluster_causes_are_free_and_the_next_ones_count() -> None:
    job = Lifecycle(BOTH)
    for attempt in range(10):
        assert crash(job, attempt, disrupted=True).requeue_after_seconds is None
    assert job.status["restarts"] == {"counted": 0, "uncounted": 10, "sinceCheckpoint": 0}
    crash(job, 10, disrupted=True)
    assert job.status["restarts"] == {"counted": 1, "uncounted": 10, "sinceCheckpoint": 1}


@pytest.mark.parametrize("first", ["ValueError: shapes (3,) and (4,)", "ValueError: shapes (5,) and (4,)"])
def test_the_same_error_message_in_two_attempts_fails_the_job_at_once_whatever_its_numbers(first: str) -> None:
    job = Lifecycle(BOTH)
    crash(job, 0, 1, message=first)
    crash(job, 1, 1, message="ValueError: shapes (3,) and (4,)")
    assert job.condition_status("Failed") == ("True", "RepeatedError")
    assert "ValueError: shapes (3,) and (4,)" in job.message("Failed")
    assert "two attempts in a row" in job.message("Failed")


@pytest.mark.parametrize(
    ("why", "code", "message"),
    [
        ("another message", 1, "ValueError: something else"),
        ("another code", 3, "ValueError: shapes"),
        ("no message", 1, ""),
        ("a new checkpoint", 1, termination_message(message="ValueError: shapes", last_checkpoint=SAVED)),
    ],
)
def test_it_is_not_the_same_with(why: str, code: int, message: str) -> None:
    job = Lifecycle(BOTH)
    crash(job, 0, 1, message="ValueError: shapes" if message else "")
    crash(job, 1, code, message=message)
    assert job.status["phase"] == "Running", why


def test_a_crash_is_never_a_repeated_error() -> None:
    job = Lifecycle(BOTH)
    crash(job, 0, 139, message="Segmentation fault")
    crash(job, 1, 139, message="Segmentation fault")
    assert job.status["phase"] == "Running"


def test_a_node_on_which_two_attempts_in_a_row_failed_is_avoided_with_an_event() -> None:
    job = Lifecycle(BOTH)
    assert event_reasons(crash(job, 0)) == ["Restarting"]
    todo = job.reconcile([pod("worker-0-r1"), pod("worker-1-r1", "F")])
    assert event_reasons(todo) == ["Restarting", "NodeAvoided"]
    assert "node-a" in todo.events[1].message
    later = job.reconcile(after=10)
    affinity = later.creates[0]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}]


def test_a_node_is_not_avoided_for_two_failures_with_another_between() -> None:
    job = Lifecycle(BOTH)
    crash(job, 0)
    crash(job, 1, node="node-b")
    crash(job, 2)
    assert "excludedNodes" not in job.status["gangs"]["training"]


def test_a_pod_on_a_dead_node_does_not_delay_the_restart() -> None:
    job = Lifecycle(BOTH)
    dead = pod("worker-1", deleting=True, node="node-dead")
    todo = job.reconcile([pod("worker-0"), dead])
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert deleted(todo) == ["worker-0"]
    job.reconcile([dead, pod("worker-0-r1"), pod("worker-1-r1")])
    assert job.status["phase"] == "Running"


def test_failed_pods_are_kept_for_their_logs_while_the_job_runs_up_to_the_configured_number() -> None:
    job = Lifecycle(BOTH, runPolicy={"keepFailedPods": 1, "backoffLimit": 9})
    crash(job, 0)
    crash(job, 1)
    old = [pod("worker-1", "F"), pod("worker-1-r1", "F"), pod("worker-0-r2"), pod("worker-1-r2")]
    assert deleted(job.reconcile(old)) == ["worker-1"]


def test_the_pod_of_the_root_cause_is_kept_before_those_that_followed() -> None:
    job = Lifecycle(BOTH, runPolicy={"keepFailedPods": 1})
    lost = pod("worker-0", "F", exit_code=139)
    todo = job.reconcile([lost, pod("worker-1", "F", exit_code=75)])
    assert deleted(todo) == ["worker-1"]


def test_a_job_with_a_rule_that_ignores_a_failure_continues_and_succeeds() -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}, "roles": ["worker"]}
    job = Lifecycle(BOTH, failurePolicy={"rules": [rule]}, successPolicy="AllWorkers")
    todo = job.reconcile([pod("worker-0"), pod("worker-1", "F", exit_code=9)])
    assert (created(todo), job.status["phase"]) == ([], "Running")
    job.reconcile([pod("worker-0", "S")])
    assert job.status["phase"] == "Succeeded"


def test_a_rule_that_ignores_a_disruption_holds_while_the_pod_is_still_going() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    job = Lifecycle(BOTH, failurePolicy={"rules": [rule]})
    going = pod("worker-1", deleting=True, disrupted=True, conditions=("DisruptionTarget=True",))
    assert created(job.reconcile([pod("worker-0"), going])) == []
    assert created(job.reconcile([pod("worker-0")])) == []


def test_a_rule_can_make_a_restart_free() -> None:
    rule = {"action": "RestartWithoutCount", "onMessagePattern": "link is down"}
    job = Lifecycle(BOTH, failurePolicy={"rules": [rule]})
    crash(job, 0, 1, message="the link is down again")
    assert job.status["restarts"] == {"counted": 0, "uncounted": 1, "sinceCheckpoint": 0}
    assert job.status["failures"][-1]["reason"] == "ApplicationError"


def test_a_custom_job_restarts_with_all_its_roles() -> None:
    spec = {"strategy": "Custom", "chief": {}, "ps": {"replicas": 1}, "image": "a", "command": ["b"]}
    job = Lifecycle("chief-0:R worker-0:R worker-1:R ps-0:R", **spec)
    todo = job.reconcile("chief-0:R worker-0:F worker-1:R ps-0:R")
    assert created(todo) == ["chief-0-r1", "worker-0-r1", "worker-1-r1", "ps-0-r1"]


@pytest.mark.parametrize("strategy", ["Mirrored", "OneDevice"])
def test_a_single_replica_restarts_by_itself(strategy: str) -> None:
    job = Lifecycle("worker-0:R", strategy=strategy, worker={"replicas": 1})
    assert created(job.reconcile("worker-0:F")) == ["worker-0-r1"]


def test_of_ten_failures_that_are_kept_the_causes_are_the_last_to_go() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 20})
    for attempt in range(9):
        suffix = f"-r{attempt}" if attempt else ""
        job.reconcile([pod(f"worker-0{suffix}", "F", exit_code=139), pod(f"worker-1{suffix}", "F", exit_code=75)])
        job.reconcile(after=300)
        job.reconcile(run(attempt + 1))
    failures = job.status["failures"]
    assert len(failures) == 10
    assert [f["attempt"] for f in failures if f["rootCause"]] == list(range(9))


def test_the_last_checkpoint_stays_in_the_status_when_the_next_attempt_has_written_none() -> None:
    job = Lifecycle(BOTH)
    job.status["progress"] = {"step": 120, "lastCheckpoint": SAVED}
    crash(job, 0)
    assert job.status["progress"]["lastCheckpoint"] == SAVED


def test_a_replica_whose_success_is_known_is_not_missed_when_its_pod_is_collected() -> None:
    job = Lifecycle(BOTH, successPolicy="AllWorkers")
    job.reconcile("worker-0:R worker-1:S")
    todo = job.reconcile("worker-0:R")
    assert (created(todo), job.status["phase"]) == ([], "Running")
    assert job.status["replicas"]["worker"]["succeeded"] == 1
    job.reconcile("worker-0:S")
    assert job.status["phase"] == "Succeeded"


def test_a_failed_job_has_no_other_condition_that_is_true() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 1})
    crash(job, 0)
    job.reconcile("worker-0-r1:R worker-1-r1:F")
    true = [c["type"] for c in job.status["conditions"] if c["status"] == "True"]
    assert true == ["Failed"]
    assert condition(job.status, "Running")["reason"] == "BackoffLimitExceeded"


def test_an_event_is_published_with_its_change_of_the_status_and_never_again() -> None:
    """Given a restart that the status has, when the job is reconciled, also by a new leader, then no event repeats."""
    job = Lifecycle(BOTH)
    assert event_reasons(job.reconcile("worker-0:R worker-1:F")) == ["Restarting"]
    assert event_reasons(job.reconcile("worker-1:F")) == []
    assert event_reasons(job.reconcile("worker-1:F worker-0-r1:P worker-1-r1:P")) == []
