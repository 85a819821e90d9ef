"""Evaluation: the evaluator beside training, the gang after it, and a job that only evaluates."""

import pytest
from support.factories import CHECKPOINT, EVALUATED, Story, created, deleted, pod, told, words

BOTH = "worker-0:R worker-1:R"
WITH = f"{BOTH} evaluator-0:R"
DONE = "worker-0:S worker-1:S"
RESULT = {
    "step": 10,
    "checkpoint": "/ckpt/fashion/10",
    "metrics": {"accuracy": 0.9},
    "examples": 10000,
    "time": "2030-01-02T03:04:05Z",
}


def continuous(mode: str = "Continuous", **evaluation: object) -> dict[str, object]:
    return {"evaluation": {"mode": mode, **evaluation}, "checkpoint": CHECKPOINT}


def test_the_evaluator_is_made_beside_training_and_counts_among_the_ready() -> None:
    story = Story(**continuous())
    assert created(story.look()) == ["worker-0", "worker-1", "evaluator-0"]
    story.look(f"{BOTH} evaluator-0:P")
    assert story.status["phase"] == "Running", "training waits for no evaluator"
    assert story.status["summary"]["ready"] == "2/3"


def test_an_evaluator_that_fails_restarts_alone_and_training_hears_nothing_of_it() -> None:
    story = Story(WITH, **continuous())
    todo = story.look(f"{BOTH} evaluator-0:F")
    assert (created(todo), deleted(todo)) == (["evaluator-0-r1"], [])
    assert (story.status["phase"], story.status["attempt"]) == ("Running", 0)
    assert story.says("PodsReady") == ("True", "AllReplicasRun")


def test_training_that_restarts_leaves_the_evaluator_alone() -> None:
    story = Story(WITH, **continuous())
    todo = story.look("worker-0:R worker-1:F evaluator-0:R")
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert deleted(todo) == ["worker-0"]


def test_failures_of_the_evaluator_do_not_make_those_of_training_repeated() -> None:
    story = Story(WITH, **continuous())
    same = "ValueError: no such file"
    story.look([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "F", exit_code=1, message=same)])
    todo = story.look([pod("worker-0"), pod("worker-1", "F", exit_code=1, message=same), pod("evaluator-0-r1")])
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]


def test_an_evaluator_that_cannot_start_is_told_of_while_training_runs() -> None:
    story = Story(**continuous())
    story.look()
    waits = pod("evaluator-0", "P", reason="Unschedulable", message="0/2 nodes are available")
    story.look([pod("worker-0"), pod("worker-1"), waits])
    assert story.status["phase"] == "Running"
    assert story.says("PodsReady") == ("False", "Unschedulable")
    assert story.status["summary"]["message"] == ("evaluator-0 cannot start: Unschedulable: 0/2 nodes are available")
    story.look(WITH)
    assert story.says("PodsReady") == ("True", "AllReplicasRun")


def test_an_evaluator_that_a_quota_refuses_is_told_of_while_training_runs() -> None:
    story = Story(BOTH, **continuous())
    story.look(BOTH, refusal="exceeded quota: gpus")
    assert story.says("PodsReady") == ("False", "CreationRefused")
    assert "the evaluator cannot be created: exceeded quota: gpus" in story.status["summary"]["message"]


def test_an_evaluator_that_is_given_up_goes_and_training_runs_on() -> None:
    story = Story(**continuous())
    story.look()
    waits = pod("evaluator-0", "P", reason="ImagePullBackOff", created_at="2030-01-02T03:04:05Z")
    todo = story.look([pod("worker-0"), pod("worker-1"), waits], after=301)
    assert told(todo) == ["Running", "EvaluationFailed"]
    assert story.status["phase"] == "Running"
    again = story.look([pod("worker-0"), pod("worker-1"), waits])
    assert (created(again), deleted(again)) == ([], ["evaluator-0"])
    assert story.status["summary"]["ready"] == "2/2"


@pytest.mark.parametrize(("on_failure", "phase"), [("Warn", "Succeeded"), ("FailJob", "Failed")])
def test_a_job_whose_evaluator_was_given_up_ends_with_training_as_its_user_wants(on_failure: str, phase: str) -> None:
    story = Story(WITH, **continuous(onFailure=on_failure))
    story.look([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "F", exit_code=78)])
    story.look(DONE)
    assert story.status["phase"] == phase
    assert story.says(phase) == ("True", "EvaluationFailed")


def test_with_both_the_gang_still_evaluates_when_the_evaluator_was_given_up() -> None:
    story = Story(WITH, **continuous("Both"))
    story.look([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "F", exit_code=78)])
    assert created(story.look(DONE)) == ["evaluation-0", "evaluation-1"]
    evaluated = [pod("evaluation-0", "S", message=words(evaluation=RESULT)), pod("evaluation-1", "S")]
    story.look(evaluated)
    assert story.says("Evaluated") == ("True", "Evaluated")
    assert story.says("Succeeded") == ("True", "Succeeded")


def test_after_training_the_job_waits_for_the_evaluators_last_word() -> None:
    story = Story(WITH, **continuous())
    story.look(f"{DONE} evaluator-0:R")
    assert (story.status["phase"], story.status["summary"]["ready"]) == ("Evaluating", "1/1")
    last = pod("evaluator-0", "S", message=words(evaluation=RESULT))
    todo = story.look([last])
    assert story.status["evaluation"]["final"] == RESULT
    assert told(todo) == ["Succeeded"]
    assert "evaluated 10000 examples of the checkpoint at step 10: accuracy=0.9000" in story.message("Succeeded")


def test_an_evaluator_of_the_users_own_is_done_when_it_ends() -> None:
    story = Story(WITH, evaluator={}, image="a", command=["b"])
    story.look(f"{DONE} evaluator-0:S")
    assert story.says("Succeeded") == ("True", "Succeeded")
    assert "told no result" in story.message("Succeeded")


def test_an_evaluation_that_is_late_ends_by_its_own_timer() -> None:
    story = Story(WITH, **continuous(deadlineSeconds=60))
    todo = story.look(f"{DONE} evaluator-0:R", after=1000)
    assert todo.requeue_after_seconds == pytest.approx(60)
    todo = story.look(f"{DONE} evaluator-0:R", after=59)
    assert todo.requeue_after_seconds == pytest.approx(1)
    story.look(f"{DONE} evaluator-0:R", after=1)
    assert story.says("Evaluated") == ("False", "EvaluationDeadlineExceeded")
    assert story.says("Succeeded") == ("True", "EvaluationFailed")
    assert "evaluation.deadlineSeconds" in story.message("Succeeded")


def test_the_time_to_evaluate_is_not_counted_from_a_restart_before_the_success() -> None:
    story = Story(BOTH, **EVALUATED)
    story.look("worker-0:R worker-1:F")
    story.look("worker-0-r1:S worker-1-r1:P", after=5000)
    assert story.status["phase"] == "Evaluating"
    assert created(story.look("worker-0-r1:S", after=1)) == ["evaluation-0", "evaluation-1"]


def test_the_evaluation_gang_restarts_alone_and_finds_itself_under_new_addresses() -> None:
    story = Story(BOTH, **EVALUATED)
    story.look(DONE)
    story.look(f"{DONE} evaluation-0:R evaluation-1:R")
    todo = story.look(f"{DONE} evaluation-0:F evaluation-1:R")
    assert created(todo) == ["evaluation-0-r1", "evaluation-1-r1"]
    assert story.status["attempt"] == 0, "training was not started again"
    assert story.status["phase"] == "Evaluating"


def test_training_is_not_repeated_when_its_pods_vanish_while_it_is_evaluated() -> None:
    story = Story(BOTH, **EVALUATED)
    story.look(DONE)
    assert created(story.look("evaluation-0:R evaluation-1:R")) == []


def test_an_active_deadline_while_it_is_evaluated_ends_the_evaluation() -> None:
    story = Story(BOTH, **EVALUATED, runPolicy={"activeDeadlineSeconds": 100})
    story.look(DONE, after=50)
    story.look("evaluation-0:R evaluation-1:R", after=51)
    assert story.says("Succeeded") == ("True", "EvaluationFailed")
    assert story.says("Evaluated") == ("False", "ActiveDeadlineExceeded")


ALONE = {"task": "Evaluate", "checkpoint": CHECKPOINT}


def test_a_job_that_only_evaluates_makes_its_gang_at_once() -> None:
    story = Story(**ALONE)
    todo = story.look()
    assert created(todo) == ["evaluation-0", "evaluation-1"]
    assert [o["kind"] for o in todo.objects] == ["Service", "NetworkPolicy"]
    started = story.look("evaluation-0:R evaluation-1:R")
    assert told(started) == ["Running"]
    assert story.status["startTime"]
    assert (story.status["phase"], story.status["summary"]["ready"]) == ("Evaluating", "2/2")


def test_a_job_that_only_evaluates_succeeds_with_its_result_and_never_again() -> None:
    story = Story("evaluation-0:R evaluation-1:R", **ALONE)
    story.look([pod("evaluation-0", "S", message=words(evaluation=RESULT)), pod("evaluation-1")])
    assert (story.status["phase"], story.status["evaluation"]["final"]) == ("Succeeded", RESULT)


def test_a_job_that_only_evaluates_restarts_and_fails_as_any_other() -> None:
    story = Story("evaluation-0:R evaluation-1:R", **ALONE)
    todo = story.look("evaluation-0:R evaluation-1:F")
    assert created(todo) == ["evaluation-0-r1", "evaluation-1-r1"]
    assert story.status["attempt"] == 1
    story.look([pod("evaluation-0-r1"), pod("evaluation-1-r1", "F", exit_code=66)])
    assert story.says("Failed") == ("True", "UserError")
    assert story.says("Evaluated") == ("False", "UserError")
