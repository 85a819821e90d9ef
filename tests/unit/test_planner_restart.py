"""What follows from a failure: who starts anew, when, at whose cost, where, and when it is enough."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import NOW, Story, condition, created, deleted, planned, pod, report, stored, told, words

from tfdist_operator.observed.view import Evidence
from tfdist_operator.planner import Plan
from tfdist_operator.status.clock import parse_time

BOTH = "worker-0:R worker-1:R"
SAVED = {"step": 100, "path": "/ckpt/fashion/100", "time": "2030-01-02T03:04:00Z"}


def run(attempt: int) -> str:
    return f"worker-0-r{attempt}:R worker-1-r{attempt}:R" if attempt else BOTH


def crash(story: Story, attempt: int, code: int = 137, **fields: object) -> Plan:
    """Have worker 1 crash in an attempt, and wait until the next one runs."""
    suffix = f"-r{attempt}" if attempt else ""
    todo = story.look([pod(f"worker-0{suffix}"), pod(f"worker-1{suffix}", "F", exit_code=code, **fields)])
    if story.status["phase"] != "Failed":
        story.look(after=todo.requeue_after_seconds or 0)
        story.look(run(attempt + 1))
    return todo


def test_the_delays_between_restarts_that_count_double_up_to_five_minutes() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 20})
    delays = [crash(story, attempt).requeue_after_seconds or 0 for attempt in range(9)]
    assert delays[0] == 0
    for delay, longest in zip(delays[1:], [10, 20, 40, 80, 160, 300, 300, 300], strict=True):
        assert 0.8 * longest - 1 <= delay <= longest


def test_the_delays_of_two_jobs_differ_and_those_of_one_job_are_the_same_in_every_look() -> None:
    story = Story(BOTH)
    crash(story, 0)
    failed = [pod("worker-0-r1"), pod("worker-1-r1", "F")]
    before = story.status
    first = story.look(failed).requeue_after_seconds
    story.status = before
    assert story.look(failed).requeue_after_seconds == first


def test_while_it_waits_the_status_says_until_when_and_is_not_written_again() -> None:
    story = Story(BOTH)
    crash(story, 0)
    story.look([pod("worker-0-r1"), pod("worker-1-r1", "F")])
    begin = story.status["gangs"]["training"]["notBefore"]
    assert f"attempt 2 begins at {begin}: worker-1" in story.message("PodsReady")
    again = story.look("worker-1-r1:F", after=1)
    assert (again.status, created(again), told(again)) == (None, [], [])
    assert again.requeue_after_seconds == pytest.approx((parse_time(begin) - story.now).total_seconds())


def test_the_limit_allows_as_many_restarts_and_no_more() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 2})
    crash(story, 0)
    crash(story, 1)
    assert story.status["phase"] == "Running"
    crash(story, 2)
    assert story.says("Failed") == ("True", "BackoffLimitExceeded")
    assert story.status["restarts"] == {"counted": 2, "uncounted": 0, "sinceCheckpoint": 2}
    text = story.message("Failed")
    assert "worker-1 (pod fashion-worker-1-r2, node node-a) ended with exit code 137" in text
    assert "runPolicy.backoffLimit" in text
    assert "kubectl logs -n team fashion-worker-1-r2" in text


def test_the_limit_starts_again_when_an_attempt_has_written_a_checkpoint() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 1})
    crash(story, 0)
    todo = crash(story, 1, message=words(last_checkpoint=SAVED))
    assert todo.requeue_after_seconds is None, "the delays start again as well"
    assert story.status["restarts"] == {"counted": 2, "uncounted": 0, "sinceCheckpoint": 1}
    crash(story, 2, message=words(last_checkpoint=SAVED))
    assert story.status["phase"] == "Failed", "it is not a new one any more"


def test_ten_restarts_that_the_cluster_causes_are_free_and_the_next_ones_count() -> None:
    story = Story(BOTH)
    for attempt in range(10):
        assert crash(story, attempt, disrupted=True).requeue_after_seconds is None
    assert story.status["restarts"] == {"counted": 0, "uncounted": 10, "sinceCheckpoint": 0}
    crash(story, 10, disrupted=True)
    assert story.status["restarts"] == {"counted": 1, "uncounted": 10, "sinceCheckpoint": 1}


def test_the_same_words_at_the_end_of_two_attempts_fail_the_job_at_once() -> None:
    story = Story(BOTH)
    crash(story, 0, 1, message="ValueError: shapes (3,) and (4,)")
    crash(story, 1, 1, message="ValueError: shapes (3,) and (4,)")
    assert story.says("Failed") == ("True", "RepeatedError")
    assert "ValueError: shapes (3,) and (4,)" in story.message("Failed")
    assert "two attempts in a row" in story.message("Failed")


@pytest.mark.parametrize(
    ("why", "code", "message"),
    [
        ("other words", 1, "ValueError: something else"),
        ("another code", 3, "ValueError: shapes"),
        ("no words at all", 1, ""),
        ("a new checkpoint", 1, words(message="ValueError: shapes", last_checkpoint=SAVED)),
    ],
)
def test_it_is_not_the_same_with(why: str, code: int, message: str) -> None:
    story = Story(BOTH)
    crash(story, 0, 1, message="ValueError: shapes" if message else "")
    crash(story, 1, code, message=message)
    assert story.status["phase"] == "Running", why


def test_a_crash_is_not_called_repeated() -> None:
    story = Story(BOTH)
    crash(story, 0, 139, message="Segmentation fault")
    crash(story, 1, 139, message="Segmentation fault")
    assert story.status["phase"] == "Running"


def test_a_node_on_which_two_attempts_in_a_row_failed_is_avoided_and_an_event_says_so() -> None:
    story = Story(BOTH)
    assert told(crash(story, 0)) == ["Restarting"]
    todo = story.look([pod("worker-0-r1"), pod("worker-1-r1", "F")])
    assert told(todo) == ["Restarting", "NodeAvoided"]
    assert "node-a" in todo.events[1].message
    later = story.look(after=10)
    affinity = later.creates[0]["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["preference"]["matchFields"] == [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}]


def test_a_node_is_not_avoided_for_two_failures_with_another_between() -> None:
    story = Story(BOTH)
    crash(story, 0)
    crash(story, 1, node="node-b")
    crash(story, 2)
    assert "avoided" not in story.status["gangs"]["training"]


def test_a_pod_on_a_dead_node_holds_nobody_up() -> None:
    story = Story(BOTH)
    dead = pod("worker-1", deleting=True, node="node-dead")
    todo = story.look([pod("worker-0"), dead])
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert deleted(todo) == ["worker-0"]
    story.look([dead, pod("worker-0-r1"), pod("worker-1-r1")])
    assert story.status["phase"] == "Running"


def test_failed_pods_are_kept_for_their_logs_while_the_job_runs_up_to_the_number_asked_for() -> None:
    story = Story(BOTH, runPolicy={"keepFailedPods": 1, "backoffLimit": 9})
    crash(story, 0)
    crash(story, 1)
    old = [pod("worker-1", "F"), pod("worker-1-r1", "F"), pod("worker-0-r2"), pod("worker-1-r2")]
    assert deleted(story.look(old)) == ["worker-1"]


def test_the_pod_of_the_root_cause_is_kept_before_those_that_followed() -> None:
    story = Story(BOTH, runPolicy={"keepFailedPods": 1})
    lost = pod("worker-0", "F", exit_code=139)
    todo = story.look([lost, pod("worker-1", "F", exit_code=75)])
    assert deleted(todo) == ["worker-1"]


def test_a_rule_that_ignores_a_failure_lets_the_job_run_on_and_succeed() -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}, "roles": ["worker"]}
    story = Story(BOTH, failurePolicy={"rules": [rule]}, successPolicy="AllWorkers")
    todo = story.look([pod("worker-0"), pod("worker-1", "F", exit_code=9)])
    assert (created(todo), story.status["phase"]) == ([], "Running")
    story.look([pod("worker-0", "S")])
    assert story.status["phase"] == "Succeeded"


def test_a_rule_that_ignores_a_disruption_holds_while_the_pod_is_still_going() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    story = Story(BOTH, failurePolicy={"rules": [rule]})
    going = pod("worker-1", deleting=True, disrupted=True, conditions=("DisruptionTarget=True",))
    assert created(story.look([pod("worker-0"), going])) == []
    assert created(story.look([pod("worker-0")])) == []


def test_a_rule_can_make_a_restart_free() -> None:
    rule = {"action": "RestartWithoutCount", "onMessagePattern": "link is down"}
    story = Story(BOTH, failurePolicy={"rules": [rule]})
    crash(story, 0, 1, message="the link is down again")
    assert story.status["restarts"] == {"counted": 0, "uncounted": 1, "sinceCheckpoint": 0}
    assert story.status["failures"][-1]["reason"] == "ApplicationError"


def test_a_custom_job_restarts_with_all_its_roles() -> None:
    spec = {"strategy": "Custom", "chief": {}, "ps": {"replicas": 1}, "image": "a", "command": ["b"]}
    story = Story("chief-0:R worker-0:R worker-1:R ps-0:R", **spec)
    todo = story.look("chief-0:R worker-0:F worker-1:R ps-0:R")
    assert created(todo) == ["chief-0-r1", "worker-0-r1", "worker-1-r1", "ps-0-r1"]


@pytest.mark.parametrize("strategy", ["Mirrored", "OneDevice"])
def test_a_single_replica_restarts_by_itself(strategy: str) -> None:
    story = Story("worker-0:R", strategy=strategy, worker={"replicas": 1})
    assert created(story.look("worker-0:F")) == ["worker-0-r1"]


def test_of_ten_failures_that_are_kept_the_causes_are_the_last_to_go() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 20})
    for attempt in range(9):
        suffix = f"-r{attempt}" if attempt else ""
        story.look([pod(f"worker-0{suffix}", "F", exit_code=139), pod(f"worker-1{suffix}", "F", exit_code=75)])
        story.look(after=300)
        story.look(run(attempt + 1))
    failures = story.status["failures"]
    assert len(failures) == 10
    assert [f["attempt"] for f in failures if f["rootCause"]] == list(range(9))


def test_a_checkpoint_is_still_told_of_when_the_next_attempt_has_written_none() -> None:
    story = Story(BOTH)
    story.status["progress"] = {"step": 120, "lastCheckpoint": SAVED}
    crash(story, 0)
    assert story.status["progress"]["lastCheckpoint"] == SAVED


def test_a_replica_whose_success_is_known_is_not_missed_when_its_pod_is_collected() -> None:
    story = Story(BOTH, successPolicy="AllWorkers")
    story.look("worker-0:R worker-1:S")
    todo = story.look("worker-0:R")
    assert (created(todo), story.status["phase"]) == ([], "Running")
    assert story.status["replicas"]["worker"]["succeeded"] == 1
    story.look("worker-0:S")
    assert story.status["phase"] == "Succeeded"


def test_a_job_that_failed_says_of_nothing_any_more_that_it_holds() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 1})
    crash(story, 0)
    story.look("worker-0-r1:R worker-1-r1:F")
    true = [c["type"] for c in story.status["conditions"] if c["status"] == "True"]
    assert true == ["Failed"]
    assert condition(story.status, "Running")["reason"] == "BackoffLimitExceeded"


def test_a_controller_that_takes_over_tells_what_its_predecessor_may_not_have_told() -> None:
    story = Story(BOTH)
    first = story.look("worker-0:R worker-1:F")
    todo = story.look("worker-1:F", taken_over=True)
    assert [(e.reason, e.identity, e.message) for e in todo.events] == [
        (e.reason, e.identity, e.message) for e in first.events
    ]
    story.now += timedelta(seconds=61)
    assert told(story.look("worker-1:F worker-0-r1:P worker-1-r1:P", taken_over=True)) == []


def test_a_lost_peer_waits_a_moment_for_the_failure_that_it_followed_from() -> None:
    running = stored("worker-0:R worker-1:R")
    bereaved = pod("worker-0", "F", exit_code=75, finished_at="2030-01-02T03:04:04Z")
    early = planned([bereaved, pod("worker-1", "R")], running)
    assert (early.creates, early.requeue_after_seconds) == ((), 2.0)
    assert early.status is not None
    assert (early.status["phase"], early.status.get("failures")) == ("Running", None)

    killed = pod("worker-1", "F", exit_code=137, finished_at="2030-01-02T03:04:05Z")
    assert root_cause_of(planned([bereaved, killed], running)) == "Crash"
    late = planned([bereaved, pod("worker-1", "R")], running, now=NOW + timedelta(seconds=3))
    assert root_cause_of(late) == "PeerLost"


def test_of_peers_that_were_lost_the_one_that_stands_still_is_the_cause() -> None:
    look: Any = {"spec": {"worker": {"replicas": 3}}, "report": report(3)}
    running = stored("worker-0:R worker-1:R worker-2:R", **look)
    pods = [pod("worker-0", "F", exit_code=75), pod("worker-1", "R"), pod("worker-2", "R")]
    asks = planned(pods, running, **look)
    assert ([q.index for q in asks.ask], asks.creates) == ([1, 2], ())

    todo = planned(pods, running, **look, evidence=Evidence(asks.ask_about, "worker-2", "", ("worker-2",)))
    assert todo.status is not None
    first, cause = todo.status["failures"]
    assert (first["reason"], first["index"], cause["reason"], cause["index"]) == ("Secondary", 0, "Stalled", 2)
    assert "worker-2 (pod fashion-worker-2, node node-a) stands still and does not answer" in cause["message"]

    answered = planned(pods, running, **look, evidence=Evidence(asks.ask_about, "worker-1", ""))
    assert root_cause_of(answered) == "PeerLost"


def root_cause_of(todo: Plan) -> str:
    assert todo.status is not None
    return next(str(f["reason"]) for f in todo.status["failures"] if f["rootCause"])
