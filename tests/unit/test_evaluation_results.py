"""Evaluation results: reports and termination messages of the evaluator, the status, and the end of the job."""

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest
from support.factories import (
    CHECKPOINT,
    NOW,
    TRAINING,
    UID,
    Lifecycle,
    created,
    manifest,
    pod,
    report,
    termination_message,
)
from support.report_jobs import poll_once

from tfdist.contract import Phase, Role
from tfdist.contract_reports import EvaluationReport, ProgressReport
from tfdist.observed.job_view import TimestampedReport
from tfdist.observed.pod import PodSummary
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.replica_reports.poller import PollRate, ReportPoller
from tfdist_operator.replica_reports.report_client import ReportClient

CONTINUOUS: dict[str, Any] = {"evaluation": {"mode": "Continuous"}, "checkpoint": CHECKPOINT}
BOTH = "worker-0:R worker-1:R"
WITH = f"{BOTH} evaluator-0:R"
DONE = "worker-0:S worker-1:S"


def result(step: int, accuracy: float = 0.5) -> dict[str, Any]:
    time = "2030-01-02T03:04:05Z"
    return {"step": step, "checkpoint": f"/c/{step}", "metrics": {"accuracy": accuracy}, "examples": 9, "time": time}


def evaluation_report(**results: Mapping[str, Any]) -> ProgressReport:
    """Return the evaluator's report; `latest`, `best` and `final` are results."""
    names = {"latest": "evaluation", "best": "best_evaluation", "final": "final_evaluation"}
    fields = {names[name]: EvaluationReport.model_validate(value) for name, value in results.items()}
    return ProgressReport(role=Role.EVALUATOR, index=0, attempt=0, phase=Phase.EVALUATING).model_copy(update=fields)


def test_reported_results_are_in_the_status_and_the_metric_is_in_the_summary() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    story.reconcile(WITH, evaluated=evaluation_report(latest=result(20, 0.5), best=result(10, 0.6)))
    assert story.status["evaluation"] == {"latest": result(20, 0.5), "best": result(10, 0.6)}
    assert story.status["summary"]["metric"] == "accuracy=0.5000"
    story.reconcile(WITH)
    assert story.status["evaluation"]["best"] == result(10, 0.6), "a new controller process keeps it"


def test_results_alone_are_written_no_more_often_than_progress() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    todo = story.reconcile(WITH, evaluated=evaluation_report(latest=result(20)), throttled_seconds=9.0)
    assert todo.status is None
    assert todo.requeue_after_seconds == pytest.approx(9.0)


def test_the_termination_message_of_the_evaluator_has_the_best_and_the_last_result() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    last = pod(
        "evaluator-0", "S", message=termination_message(evaluation=result(30, 0.7), bestEvaluation=result(20, 0.8))
    )
    story.reconcile(
        [pod("worker-0", "S"), pod("worker-1", "S"), last],
        evaluated=evaluation_report(latest=result(20), best=result(20)),
    )
    expected = {"latest": result(30, 0.7), "best": result(20, 0.8), "final": result(30, 0.7)}
    assert (story.status["phase"], story.status["evaluation"]) == ("Succeeded", expected)


def test_an_evaluator_that_ended_before_the_observed_end_of_training_and_whose_pod_is_deleted_has_succeeded() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    story.reconcile(
        [
            pod("worker-0"),
            pod("worker-1"),
            pod("evaluator-0", "S", message=termination_message(evaluation=result(30, 0.7))),
        ]
    )
    assert story.status["phase"] == "Running"
    story.reconcile(DONE)
    assert (story.status["phase"], story.status["evaluation"]["final"]) == ("Succeeded", result(30, 0.7))
    assert "checkpoint at step 30: accuracy=0.7000" in story.message("Evaluated")


def test_at_the_deadline_an_evaluator_that_has_evaluated_the_last_checkpoint_has_succeeded() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    busy = evaluation_report(latest=result(30), final=result(30))
    story.reconcile(f"{DONE} evaluator-0:R", evaluated=busy)
    assert story.status["phase"] == "Evaluating", "others are left to score"
    story.reconcile(f"{DONE} evaluator-0:R", after=601, evaluated=busy)
    assert story.condition_status("Evaluated") == ("True", "Evaluated")
    assert story.condition_status("Succeeded") == ("True", "Succeeded")


@pytest.mark.parametrize(
    "own",
    [
        {"evaluator": {}, "image": "a", "command": ["train"], "without": ("training",)},
        {"evaluator": {"image": "a", "command": ["score"]}},
    ],
    ids=["a job without the trainer", "an evaluator without it"],
)
def test_an_evaluator_with_a_program_of_the_user_has_succeeded_at_the_deadline_too(own: dict[str, Any]) -> None:
    story = Lifecycle(WITH, **own, **CONTINUOUS)
    story.reconcile(f"{DONE} evaluator-0:R")
    story.reconcile(f"{DONE} evaluator-0:R", after=601)
    assert story.condition_status("Evaluated") == ("True", "NoResult")
    assert story.condition_status("Succeeded") == ("True", "Succeeded")
    assert "was stopped at evaluation.deadlineSeconds" in story.message("Succeeded")


@pytest.mark.parametrize(("scored", "goes_on"), [(None, False), (30, True)])
def test_failures_of_the_evaluator_count_since_its_last_result_and_not_since_the_last_checkpoint(
    scored: int | None, *, goes_on: bool
) -> None:
    story = Lifecycle(WITH, **CONTINUOUS, runPolicy={"backoffLimit": 1})
    story.status = {**story.status, "evaluation": {"latest": result(20)}}
    story.reconcile(f"{BOTH} evaluator-0:F")
    story.status["progress"] = {"lastCheckpoint": {"step": 90, "path": "/c/90", "time": "2030-01-02T03:04:05Z"}}
    report = evaluation_report(latest=result(scored)) if scored else None
    todo = story.reconcile(f"{BOTH} evaluator-0-r1:F", evaluated=report)
    assert (created(todo) == ["evaluator-0-r2"]) is goes_on
    assert ("Evaluated" in {c["type"] for c in story.status["conditions"]}) is not goes_on
    assert story.status["phase"] == "Running"


def test_a_suspended_evaluation_continues_in_a_new_attempt_of_the_evaluator_alone() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    story.reconcile(f"{DONE} evaluator-0:R", evaluated=evaluation_report(latest=result(20)))
    story.spec = story.spec | {"runPolicy": {"suspend": True}}
    story.reconcile(f"{DONE} evaluator-0:R")
    story.reconcile(DONE)
    assert story.status["phase"] == "Suspended"
    story.spec = {k: v for k, v in story.spec.items() if k != "runPolicy"}
    assert created(story.reconcile(DONE, after=9999)) == ["evaluator-0-r1"], "and no time has passed for its deadline"
    assert story.status["evaluation"] == {"latest": result(20)}


MODELS = {"name": "models", "persistentVolumeClaim": {"claimName": "models"}}
SCRIPT: dict[str, Any] = {"training": {"script": "/train.py"}, "checkpoint": CHECKPOINT}


def validated(step: int, loss: float, **fields: Any) -> dict[str, Any]:
    return {"step": step, "metrics": {"loss": loss}, "time": "2030-01-02T03:04:05Z"} | fields


def script_report(**results: Mapping[str, Any]) -> TimestampedReport:
    """Return the report of worker 0 of a script; `evaluation` and `best_evaluation` are results."""
    fields: dict[str, Any] = {name: EvaluationReport.model_validate(value) for name, value in results.items()}
    return report(**fields)


def test_a_script_s_own_evaluations_are_in_the_status_while_it_trains() -> None:
    story = Lifecycle(BOTH, **SCRIPT)
    first, best = validated(4, 0.5), validated(2, 0.4, checkpoint="/c/2", examples=30)
    story.reconcile(BOTH, report=script_report(evaluation=first, best_evaluation=best))
    assert story.status["evaluation"] == {"latest": first, "best": best}
    assert story.status["summary"]["metric"] == "loss=0.5000"
    story.reconcile(BOTH)
    assert story.status["evaluation"] == {"latest": first, "best": best}, "a new controller process keeps it"


@pytest.mark.parametrize(
    ("evaluated", "text"),
    [
        ({"examples": 30, "checkpoint": "/c/6"}, "evaluated 30 examples of the checkpoint at step 6: loss=0.3000"),
        ({"examples": 1}, "evaluated 1 example of the model at step 6: loss=0.3000"),
        ({}, "evaluated at step 6: loss=0.3000"),
    ],
    ids=["a checkpoint", "no checkpoint", "data of unknown size"],
)
def test_the_last_evaluation_of_a_script_is_the_final_one_if_it_is_of_the_last_step(
    evaluated: dict[str, Any], text: str
) -> None:
    story = Lifecycle(BOTH, **SCRIPT)
    last = validated(6, 0.3, **evaluated)
    message = termination_message(step=6, evaluation=last, bestEvaluation=validated(2, 0.2))
    story.reconcile([pod("worker-0", "S", message=message), pod("worker-1", "S")])
    assert story.status["phase"] == "Succeeded"
    assert story.status["evaluation"] == {"latest": last, "final": last, "best": validated(2, 0.2)}
    assert story.condition_status("Evaluated") == ("True", "Evaluated")
    assert story.message("Succeeded").endswith(text)


def test_a_script_that_has_trained_on_after_its_last_evaluation_has_no_final_one() -> None:
    story = Lifecycle(BOTH, **SCRIPT)
    message = termination_message(step=9, evaluation=validated(6, 0.3))
    story.reconcile([pod("worker-0", "S", message=message), pod("worker-1", "S")])
    assert (story.status["phase"], story.status["evaluation"]) == ("Succeeded", {"latest": validated(6, 0.3)})


def test_an_evaluator_s_results_are_not_replaced_by_those_of_training() -> None:
    story = Lifecycle(WITH, **CONTINUOUS)
    own = script_report(evaluation=validated(9, 0.1))
    story.reconcile(WITH, evaluated=evaluation_report(latest=result(5)), report=own)
    assert story.status["evaluation"] == {"latest": result(5)}


@pytest.mark.parametrize(
    ("export", "directory"),
    [({}, "/ckpt/fashion/export"), ({"directory": "/models/{name}/"}, "/models/fashion")],
    ids=["in the checkpoint directory", "elsewhere"],
)
def test_the_status_has_the_folders_of_exported_models(export: dict[str, Any], directory: str) -> None:
    volumes = {"volumes": [MODELS], "volumeMounts": [{"name": "models", "mountPath": "/models"}]}
    story = Lifecycle(BOTH, training={"script": "/train.py", "export": export}, checkpoint=CHECKPOINT, **volumes)
    exports = [{"which": "Final", "step": 9}, {"which": "Best", "step": 6}, {"which": "Other", "step": 1}, {"step": 2}]
    message = termination_message(step=9, exports=exports)
    story.reconcile([pod("worker-0", "S", message=message), pod("worker-1", "S")])
    assert story.status["phase"] == "Succeeded"
    final, best = {"directory": f"{directory}/final", "step": 9}, {"directory": f"{directory}/best", "step": 6}
    assert story.status["export"] == {"final": final, "best": best}


def test_the_evaluator_s_export_is_added_to_that_of_training() -> None:
    training = {**TRAINING, "export": {"which": ["Final", "Best"]}}
    story = Lifecycle(WITH, training=training, **CONTINUOUS)
    trained = termination_message(step=9, exports=[{"which": "Final", "step": 9}])
    done = [pod("worker-0", "S", message=trained), pod("worker-1", "S")]
    story.reconcile([*done, pod("evaluator-0")])
    assert story.status["export"] == {"final": {"directory": "/ckpt/fashion/export/final", "step": 9}}
    evaluated = termination_message(evaluation=result(9), exports=[{"which": "Best", "step": 6}])
    story.reconcile([*done, pod("evaluator-0", "S", message=evaluated)])
    assert story.status["export"]["best"] == {"directory": "/ckpt/fashion/export/best", "step": 6}
    assert story.status["export"]["final"]["step"] == 9


def test_a_pod_of_a_job_without_export_cannot_report_one() -> None:
    story = Lifecycle(BOTH, **SCRIPT)
    message = termination_message(step=9, exports=[{"which": "Final", "step": 9}])
    story.reconcile([pod("worker-0", "S", message=message), pod("worker-1", "S")])
    assert "export" not in story.status


class Answers:
    """Report ports: the answer of each address, and the addresses of all requests."""

    def __init__(self, answers: Mapping[str, ProgressReport]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    async def progress(self, ip: str) -> ProgressReport | None:
        self.asked.append(ip)
        return self.answers.get(ip)


class Pods(PodCache):
    """Pods given as summaries."""

    def __init__(self, *pods: PodSummary) -> None:
        super().__init__(lambda _: None)
        self._given = {pod.name: pod for pod in pods}

    def find(self, key: NamespacedName, job_uid: str, name: str) -> PodSummary | None:  # noqa: ARG002  there is one job
        return self._given.get(name)


def test_an_evaluator_is_polled_while_it_runs_and_only_a_changed_report_causes_a_reconcile() -> None:
    jobs, states, reconciles = JobCache(), RuntimeStateStore(), []
    job = manifest(**CONTINUOUS)
    job["metadata"] |= {"resourceVersion": "1", "generation": 1}
    jobs.upsert(job)
    (key,) = (found.key for found in jobs.all())
    evaluator = pod("evaluator-0", ip="10.0.0.9")
    states.get(key, UID).evaluator = evaluator.name
    answers = Answers({"10.0.0.9": evaluation_report(latest=result(10))})
    pods = Pods(pod("worker-0", "S"), evaluator)
    reports = cast("ReportClient", answers)
    poller = ReportPoller(
        jobs, pods, states, reports, lambda changed, _: reconciles.append(changed), lambda: NOW, PollRate(0, 10)
    )
    asyncio.run(poll_once(poller, evaluators=True))
    asyncio.run(poll_once(poller, evaluators=True))
    assert (answers.asked, reconciles) == (["10.0.0.9"] * 2, [key])
    asyncio.run(poll_once(poller, evaluators=False))
    assert len(answers.asked) == 2
    answers.answers["10.0.0.9"] = evaluation_report()
    asyncio.run(poll_once(poller, evaluators=True))
    assert states.get(key, UID).evaluated == evaluation_report(latest=result(10)), (
        "a restarted evaluator reports fewer results at first"
    )
