"""What the evaluator tells while it runs, and what becomes of it in the status and in the end of the job."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from support.factories import CHECKPOINT, NOW, UID, Story, created, manifest, pod, words

from tfdist.contract import Phase, Role
from tfdist.contract_reports import EvaluationReport, ProgressReport
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.memory import Memory
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.observed.pod import PodSummary
from tfdist_operator.progress import ProgressPoller
from tfdist_operator.reports import Reports
from tfdist_operator.rhythm import Rhythm

CONTINUOUS: dict[str, Any] = {"evaluation": {"mode": "Continuous"}, "checkpoint": CHECKPOINT}
BOTH = "worker-0:R worker-1:R"
WITH = f"{BOTH} evaluator-0:R"
DONE = "worker-0:S worker-1:S"


def result(step: int, accuracy: float = 0.5) -> dict[str, Any]:
    time = "2030-01-02T03:04:05Z"
    return {"step": step, "checkpoint": f"/c/{step}", "metrics": {"accuracy": accuracy}, "examples": 9, "time": time}


def tells(**results: Mapping[str, Any]) -> ProgressReport:
    """Return the evaluator's report; `latest`, `best` and `final` are results."""
    names = {"latest": "evaluation", "best": "best_evaluation", "final": "final_evaluation"}
    told = {names[name]: EvaluationReport.model_validate(value) for name, value in results.items()}
    return ProgressReport(role=Role.EVALUATOR, index=0, attempt=0, phase=Phase.EVALUATING).model_copy(update=told)


def test_what_the_evaluator_tells_is_in_the_status_and_its_metric_is_shown() -> None:
    story = Story(WITH, **CONTINUOUS)
    story.look(WITH, evaluated=tells(latest=result(20, 0.5), best=result(10, 0.6)))
    assert story.status["evaluation"] == {"latest": result(20, 0.5), "best": result(10, 0.6)}
    assert story.status["summary"]["metric"] == "accuracy=0.5000"
    story.look(WITH)
    assert story.status["evaluation"]["best"] == result(10, 0.6), "a controller that starts anew forgets nothing"


def test_results_alone_are_written_no_more_often_than_progress() -> None:
    story = Story(WITH, **CONTINUOUS)
    todo = story.look(WITH, evaluated=tells(latest=result(20)), seconds_since_status_write=1.0)
    assert todo.status is None
    assert todo.requeue_after_seconds == pytest.approx(9.0)


def test_the_last_words_of_the_evaluator_say_what_was_best_and_last() -> None:
    story = Story(WITH, **CONTINUOUS)
    last = pod("evaluator-0", "S", message=words(evaluation=result(30, 0.7), bestEvaluation=result(20, 0.8)))
    story.look([pod("worker-0", "S"), pod("worker-1", "S"), last], evaluated=tells(latest=result(20), best=result(20)))
    expected = {"latest": result(30, 0.7), "best": result(20, 0.8), "final": result(30, 0.7)}
    assert (story.status["phase"], story.status["evaluation"]) == ("Succeeded", expected)


def test_an_evaluator_that_ended_before_training_was_known_to_have_and_whose_pod_is_gone_has_evaluated() -> None:
    story = Story(WITH, **CONTINUOUS)
    story.look([pod("worker-0"), pod("worker-1"), pod("evaluator-0", "S", message=words(evaluation=result(30, 0.7)))])
    assert story.status["phase"] == "Running"
    story.look(DONE)
    assert (story.status["phase"], story.status["evaluation"]["final"]) == ("Succeeded", result(30, 0.7))
    assert "checkpoint at step 30: accuracy=0.7000" in story.message("Evaluated")


def test_at_the_deadline_an_evaluator_that_has_scored_the_last_checkpoint_has_done_enough() -> None:
    story = Story(WITH, **CONTINUOUS)
    busy = tells(latest=result(30), final=result(30))
    story.look(f"{DONE} evaluator-0:R", evaluated=busy)
    assert story.status["phase"] == "Evaluating", "others are left to score"
    story.look(f"{DONE} evaluator-0:R", after=601, evaluated=busy)
    assert story.says("Evaluated") == ("True", "Evaluated")
    assert story.says("Succeeded") == ("True", "Succeeded")


@pytest.mark.parametrize(
    "own",
    [
        {"evaluator": {}, "image": "a", "command": ["train"], "without": ("training",)},
        {"evaluator": {"image": "a", "command": ["score"]}},
    ],
    ids=["a job without the trainer", "an evaluator without it"],
)
def test_an_evaluator_of_the_users_own_is_done_at_the_deadline_too(own: dict[str, Any]) -> None:
    story = Story(WITH, **own, **CONTINUOUS)
    story.look(f"{DONE} evaluator-0:R")
    story.look(f"{DONE} evaluator-0:R", after=601)
    assert story.says("Evaluated") == ("True", "NoResult")
    assert story.says("Succeeded") == ("True", "Succeeded")
    assert "was stopped at evaluation.deadlineSeconds" in story.message("Succeeded")


@pytest.mark.parametrize(("scored", "goes_on"), [(None, False), (30, True)])
def test_failures_of_the_evaluator_count_since_its_last_result_and_not_since_the_last_checkpoint(
    scored: int | None, *, goes_on: bool
) -> None:
    story = Story(WITH, **CONTINUOUS, runPolicy={"backoffLimit": 1})
    story.status = {**story.status, "evaluation": {"latest": result(20)}}
    story.look(f"{BOTH} evaluator-0:F")
    story.status["progress"] = {"lastCheckpoint": {"step": 90, "path": "/c/90", "time": "2030-01-02T03:04:05Z"}}
    told = tells(latest=result(scored)) if scored else None
    todo = story.look(f"{BOTH} evaluator-0-r1:F", evaluated=told)
    assert (created(todo) == ["evaluator-0-r2"]) is goes_on
    assert ("Evaluated" in {c["type"] for c in story.status["conditions"]}) is not goes_on
    assert story.status["phase"] == "Running"


def test_a_suspended_evaluation_goes_on_in_a_new_attempt_of_the_evaluator_alone() -> None:
    story = Story(WITH, **CONTINUOUS)
    story.look(f"{DONE} evaluator-0:R", evaluated=tells(latest=result(20)))
    story.spec = story.spec | {"runPolicy": {"suspend": True}}
    story.look(f"{DONE} evaluator-0:R")
    story.look(DONE)
    assert story.status["phase"] == "Suspended"
    story.spec = {k: v for k, v in story.spec.items() if k != "runPolicy"}
    assert created(story.look(DONE, after=9999)) == ["evaluator-0-r1"], "and no time has passed for its deadline"
    assert story.status["evaluation"] == {"latest": result(20)}


class Answers:
    """Report ports: what each address answers, and how often it was asked."""

    def __init__(self, answers: Mapping[str, ProgressReport]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    async def progress(self, ip: str) -> ProgressReport | None:
        self.asked.append(ip)
        return self.answers.get(ip)


class Pods(PodStore):
    """Pods given as summaries."""

    def __init__(self, *pods: PodSummary) -> None:
        super().__init__(lambda _: None)
        self._given = pods

    def of(self, key: Key, job_uid: str) -> tuple[PodSummary, ...]:  # noqa: ARG002  there is one job
        return self._given


def test_an_evaluator_is_asked_as_long_as_it_runs_and_only_news_cause_a_look() -> None:
    jobs, memory, looks = JobStore(), Memory(), []
    status = {"gangs": {"training": {"attempt": 0}, "evaluator": {"attempt": 0}}}  # training has ended
    job = manifest(**CONTINUOUS)
    job["metadata"] |= {"resourceVersion": "1", "generation": 1}
    key = jobs.take(job | {"status": status})
    answers = Answers({"10.0.0.9": tells(latest=result(10))})
    pods = Pods(pod("worker-0", "S"), pod("evaluator-0", ip="10.0.0.9"))
    reports = cast("Reports", answers)
    poller = ProgressPoller(
        jobs, pods, memory, reports, lambda changed, _: looks.append(changed), lambda: NOW, Rhythm(2, 10)
    )
    asyncio.run(poller.ask(evaluators=True))
    asyncio.run(poller.ask(evaluators=True))
    assert (answers.asked, looks) == (["10.0.0.9"] * 2, [key])
    asyncio.run(poller.ask(evaluators=False))
    assert len(answers.asked) == 2
    answers.answers["10.0.0.9"] = tells()
    asyncio.run(poller.ask(evaluators=True))
    assert memory.of(key, UID).evaluated == tells(latest=result(10)), "one that starts anew knows less for a moment"
