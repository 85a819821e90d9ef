"""Evaluation: the evaluator during training, the evaluation gang after it, and jobs with task Evaluate."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import (
    CHECKPOINT,
    EVALUATED,
    RESULT,
    Lifecycle,
    created,
    deleted,
    event_reasons,
    pod,
    termination_message,
)

from tfdist.timestamps import rfc3339

BOTH = "worker-0:R worker-1:R"
WITH = f"{BOTH} evaluator-0:R"
DONE = "worker-0:S worker-1:S"


def continuous(mode: str = "Continuous", **evaluation: object) -> dict[str, object]:
    return {"evaluation": {"mode": mode, **evaluation}, "checkpoint": CHECKPOINT}


def test_the_evaluator_is_created_with_the_training_gang_and_is_counted_as_ready() -> None:
    job = Lifecycle(**continuous())
    assert created(job.reconcile()) == ["worker-0", "worker-1", "evaluator-0"]
    job.reconcile(f"{BOTH} evaluator-0:P")
    assert job.status["phase"] == "Running", "training waits for no evaluator"
    assert job.status["summary"]["ready"] == "2/3"


def test_an_evaluator_that_fails_restarts_alone_and_training_is_not_affected() -> None:
    job = Lifecycle(WITH, **continuous())
    todo = job.reconcile(f"{BOTH} evaluator-0:F")
    assert (created(todo), deleted(todo)) == (["evaluator-0-r1"], [])
    assert (job.status["phase"], job.status["attempt"]) == ("Running", 0)
    assert job.condition_status("PodsReady") == ("True", "AllReplicasRunning")


def test_training_that_restarts_leaves_the_evaluator_alone() -> None:
    job = Lifecycle(WITH, **continuous())
    todo = job.reconcile("worker-0:R worker-1:F evaluator-0:R")
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert deleted(todo) == ["worker-0"]


def test_failures_of_the_evaluator_do_not_make_those_of_training_repeated() -> None:
    job = Lifecycle(WITH, **continuous())
    same = "ValueError: no such file"
    job.reconcile([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "F", exit_code=1, message=same)])
    todo = job.reconcile([pod("worker-0"), pod("worker-1", "F", exit_code=1, message=same), pod("evaluator-0-r1")])
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]


def test_an_evaluator_that_cannot_start_is_reported_while_training_runs() -> None:
    job = Lifecycle(**continuous())
    job.reconcile()
    waits = pod("evaluator-0", "P", reason="Unschedulable", message="0/2 nodes are available")
    job.reconcile([pod("worker-0"), pod("worker-1"), waits])
    assert job.status["phase"] == "Running"
    assert job.condition_status("PodsReady") == ("False", "Unschedulable")
    assert job.status["summary"]["message"] == ("evaluator-0 cannot start: Unschedulable: 0/2 nodes are available")
    job.reconcile(WITH)
    assert job.condition_status("PodsReady") == ("True", "AllReplicasRunning")


def test_an_evaluator_that_a_quota_rejects_is_reported_while_training_runs() -> None:
    job = Lifecycle(BOTH, **continuous())
    job.reconcile(BOTH, create_error="exceeded quota: gpus")
    assert job.condition_status("PodsReady") == ("False", "FailedCreate")
    assert "the evaluator cannot be created: exceeded quota: gpus" in job.status["summary"]["message"]


def test_an_evaluator_that_is_given_up_is_deleted_and_training_continues() -> None:
    job = Lifecycle(**continuous())
    job.reconcile()
    waits = pod("evaluator-0", "P", reason="ImagePullBackOff", created_at="2030-01-02T03:04:05Z")
    todo = job.reconcile([pod("worker-0"), pod("worker-1"), waits], after=301)
    assert event_reasons(todo) == ["Running", "EvaluationFailed"]
    assert job.status["phase"] == "Running"
    again = job.reconcile([pod("worker-0"), pod("worker-1"), waits])
    assert (created(again), deleted(again)) == ([], ["evaluator-0"])
    assert job.status["summary"]["ready"] == "2/2"


def test_an_evaluator_that_was_given_up_begins_again_when_the_job_is_resumed_with_a_correction() -> None:
    job = Lifecycle(WITH, **continuous())
    for attempt in range(4):
        suffix = f"-r{attempt}" if attempt else ""
        ended = pod(f"evaluator-0{suffix}", "F", exit_code=1, message=f"no column {'abcd'[attempt]}")
        job.reconcile([pod("worker-0"), pod("worker-1"), ended], after=400)
    assert job.condition_status("Evaluated") == ("False", "BackoffLimitExceeded")
    job.spec = continuous() | {"runPolicy": {"suspend": True}}
    job.reconcile(BOTH, after=5)
    job.reconcile(after=5)
    assert job.status["phase"] == "Suspended"
    job.spec = continuous() | {"runPolicy": {"suspend": False}}
    todo = job.reconcile(after=5)
    assert created(todo) == ["worker-0-r1", "worker-1-r1", "evaluator-0-r4"]
    assert job.condition_status("Evaluated") == ("False", "Resumed")
    runs = "worker-0-r1:R worker-1-r1:R evaluator-0-r4"
    job.reconcile(f"{runs}:R")
    assert (job.status["summary"]["ready"], "evaluation" in job.status["summary"]["message"]) == ("3/3", False)
    assert created(
        job.reconcile([*map(pod, ("worker-0-r1", "worker-1-r1")), pod("evaluator-0-r4", "F", exit_code=1)])
    ) == ["evaluator-0-r5"], "it has all its restarts again"


@pytest.mark.parametrize(("on_failure", "phase"), [("Warn", "Succeeded"), ("FailJob", "Failed")])
def test_a_job_whose_evaluator_was_given_up_ends_with_training_as_its_on_failure_sets(
    on_failure: str, phase: str
) -> None:
    job = Lifecycle(WITH, **continuous(onFailure=on_failure))
    job.reconcile([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "F", exit_code=78)])
    job.reconcile(DONE)
    assert job.status["phase"] == phase
    assert job.condition_status(phase) == ("True", "EvaluationFailed")


def test_with_both_the_gang_still_evaluates_when_the_evaluator_was_given_up() -> None:
    job = Lifecycle(WITH, **continuous("Both"))
    job.reconcile([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "F", exit_code=78)])
    assert created(job.reconcile(DONE)) == ["evaluation-0", "evaluation-1"]
    evaluated = [pod("evaluation-0", "S", message=termination_message(evaluation=RESULT)), pod("evaluation-1", "S")]
    job.reconcile(evaluated)
    assert job.condition_status("Evaluated") == ("True", "Evaluated")
    assert job.condition_status("Succeeded") == ("True", "Succeeded")


def test_after_training_the_job_waits_for_the_end_of_the_evaluator() -> None:
    job = Lifecycle(WITH, **continuous())
    job.reconcile(f"{DONE} evaluator-0:R")
    assert (job.status["phase"], job.status["summary"]["ready"]) == ("Evaluating", "1/1")
    last = pod("evaluator-0", "S", message=termination_message(evaluation=RESULT))
    todo = job.reconcile([last])
    assert job.status["evaluation"]["final"] == RESULT
    assert event_reasons(todo) == ["Succeeded"]
    assert "evaluated 10000 examples of the checkpoint at step 10: accuracy=0.9000" in job.message("Succeeded")


def test_an_evaluator_of_the_users_own_is_done_when_it_ends() -> None:
    job = Lifecycle(WITH, evaluator={}, image="a", command=["b"])
    job.reconcile(f"{DONE} evaluator-0:S")
    assert job.condition_status("Succeeded") == ("True", "Succeeded")
    assert "without a result" in job.message("Succeeded")


@pytest.mark.parametrize(
    "evaluator",
    [
        {"command": ["b"]},
        {"image": "a"},
        {"template": {"spec": {"containers": [{"name": "tensorflow", "command": ["b"]}]}}},
    ],
    ids=["command", "image", "command in the template"],
)
def test_an_evaluator_of_the_users_own_that_still_runs_at_its_deadline_is_done(evaluator: dict[str, Any]) -> None:
    # given training that succeeded, and an evaluator of another program, which reports no final result
    job = Lifecycle(WITH, evaluator=evaluator, **continuous(deadlineSeconds=60))
    job.reconcile(f"{DONE} evaluator-0:R")
    # when its deadline passes
    job.reconcile(f"{DONE} evaluator-0:R", after=60)
    # then the job has succeeded, and nothing has failed
    assert job.condition_status("Succeeded") == ("True", "Succeeded")


def test_an_evaluation_that_is_late_ends_by_its_own_timer() -> None:
    job = Lifecycle(WITH, **continuous(deadlineSeconds=60))
    todo = job.reconcile(f"{DONE} evaluator-0:R", after=1000)
    assert todo.requeue_after_seconds == pytest.approx(60)
    todo = job.reconcile(f"{DONE} evaluator-0:R", after=59)
    assert todo.requeue_after_seconds == pytest.approx(1)
    job.reconcile(f"{DONE} evaluator-0:R", after=1)
    assert job.condition_status("Evaluated") == ("False", "EvaluationDeadlineExceeded")
    assert job.condition_status("Succeeded") == ("True", "EvaluationFailed")
    assert "evaluation.deadlineSeconds" in job.message("Succeeded")


def test_an_evaluation_whose_deadline_passed_while_no_controller_led_is_observed_before_the_job_ends() -> None:
    job = Lifecycle(WITH, **continuous(deadlineSeconds=60))
    pods = "worker-0:S worker-1:S evaluator-0:R"
    job.reconcile(pods)
    job.now += timedelta(seconds=1000)
    led: dict[str, Any] = {"observed_since": rfc3339(job.now)}
    job.reconcile(pods, after=59, **led)
    assert job.status["phase"] == "Evaluating"
    job.reconcile(pods, after=1, **led)
    assert "evaluation.deadlineSeconds" in job.message("Succeeded")


def test_a_gang_that_evaluates_after_training_takes_as_long_as_its_data_do() -> None:
    job = Lifecycle(BOTH, **EVALUATED)
    job.reconcile(DONE)
    job.reconcile(f"{DONE} evaluation-0:R evaluation-1:R", after=10**6)
    assert job.status["phase"] == "Evaluating"


def test_the_time_to_evaluate_is_not_counted_from_a_restart_before_the_success() -> None:
    job = Lifecycle(BOTH, **EVALUATED)
    job.reconcile("worker-0:R worker-1:F")
    job.reconcile("worker-0-r1:S worker-1-r1:P", after=5000)
    assert job.status["phase"] == "Evaluating"
    assert created(job.reconcile("worker-0-r1:S", after=1)) == ["evaluation-0", "evaluation-1"]


def test_the_evaluation_gang_restarts_alone_with_new_addresses() -> None:
    job = Lifecycle(BOTH, **EVALUATED)
    job.reconcile(DONE)
    job.reconcile(f"{DONE} evaluation-0:R evaluation-1:R")
    todo = job.reconcile(f"{DONE} evaluation-0:F evaluation-1:R")
    assert created(todo) == ["evaluation-0-r1", "evaluation-1-r1"]
    assert job.status["attempt"] == 0, "training was not started again"
    assert job.status["phase"] == "Evaluating"


def test_training_is_not_repeated_when_its_pods_are_deleted_during_evaluation() -> None:
    job = Lifecycle(BOTH, **EVALUATED)
    job.reconcile(DONE)
    assert created(job.reconcile("evaluation-0:R evaluation-1:R")) == []


def test_an_active_deadline_while_it_is_evaluated_ends_the_evaluation() -> None:
    job = Lifecycle(BOTH, **EVALUATED, runPolicy={"activeDeadlineSeconds": 100})
    job.reconcile(DONE, after=50)
    job.reconcile("evaluation-0:R evaluation-1:R", after=51)
    assert job.condition_status("Succeeded") == ("True", "EvaluationFailed")
    assert job.condition_status("Evaluated") == ("False", "ActiveDeadlineExceeded")


ALONE = {"task": "Evaluate", "checkpoint": CHECKPOINT}


def test_a_job_that_only_evaluates_makes_its_gang_at_once() -> None:
    job = Lifecycle(**ALONE)
    todo = job.reconcile()
    assert created(todo) == ["evaluation-0", "evaluation-1"]
    assert [o["kind"] for o in todo.objects] == ["Service", "NetworkPolicy"]
    started = job.reconcile("evaluation-0:R evaluation-1:R")
    assert event_reasons(started) == ["Running"]
    assert job.status["startTime"]
    assert (job.status["phase"], job.status["summary"]["ready"]) == ("Evaluating", "2/2")


def test_a_job_that_only_evaluates_succeeds_with_its_result_and_never_again() -> None:
    job = Lifecycle("evaluation-0:R evaluation-1:R", **ALONE)
    job.reconcile([pod("evaluation-0", "S", message=termination_message(evaluation=RESULT)), pod("evaluation-1")])
    assert (job.status["phase"], job.status["evaluation"]["final"]) == ("Succeeded", RESULT)


def test_a_job_that_only_evaluates_restarts_and_fails_as_any_other() -> None:
    job = Lifecycle("evaluation-0:R evaluation-1:R", **ALONE)
    todo = job.reconcile("evaluation-0:R evaluation-1:F")
    assert created(todo) == ["evaluation-0-r1", "evaluation-1-r1"]
    assert job.status["attempt"] == 1
    job.reconcile([pod("evaluation-0-r1"), pod("evaluation-1-r1", "F", exit_code=66)])
    assert job.condition_status("Failed") == ("True", "UserError")
    assert job.condition_status("Evaluated") == ("False", "UserError")
