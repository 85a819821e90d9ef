"""Progress and evaluation results: from reports while replicas run, and from termination messages at the end."""

from collections.abc import Mapping
from typing import Any

from tfdist.contract_reports import EvaluationReport, ProgressReport, TerminationMessage
from tfdist.observed.job_view import TimestampedReport
from tfdist.progress import eta_seconds, percent


def progress_of(report: TimestampedReport, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status.progress` for a report; of fields that it lacks, only the last checkpoint is kept."""
    content = report.content
    fields = content.model_dump(mode="json", by_alias=True, exclude_none=True, include=_COPIED)
    for name in ("examplesPerSecond", "stepTimeMillis"):
        if name in fields:
            fields[name] = round(fields[name], 1)
    fields["percent"] = percent(content.step, content.total_steps)
    fields["etaSeconds"] = eta_seconds(content)
    fields["reportedAt"] = report.read_at
    known = {k: v for k, v in stored.items() if k == "lastCheckpoint"}
    return known | {k: v for k, v in fields.items() if v not in (None, {})}


def final_progress(stored: dict[str, Any], message: TerminationMessage) -> dict[str, Any]:
    """Return `status.progress` after the end: the last report, updated from the termination message."""
    result = dict(stored)
    if message.step is not None and message.step != result.get("step"):
        result.pop("epoch", None)  # of an earlier step
    if message.epoch is not None:
        result["epoch"] = message.epoch
    if message.total_steps is not None:
        result["totalSteps"] = message.total_steps
    if message.step is not None:
        result["step"] = message.step
        done = percent(message.step, result.get("totalSteps"))
        result |= {"percent": done} if done is not None else {}
    if message.metrics:
        result["metrics"] = dict(message.metrics)
    if message.last_checkpoint is not None:
        result["lastCheckpoint"] = message.last_checkpoint.model_dump(mode="json", by_alias=True, exclude_none=True)
    result.pop("etaSeconds", None)
    return result


def evaluation_of(
    stored: Mapping[str, Any],
    report: ProgressReport | None,
    evaluator: TerminationMessage | None,
    gang: TerminationMessage | None,
) -> dict[str, Any]:
    """Return `status.evaluation`; fields without a new value stay as stored.

    Args:
        stored: the stored `status.evaluation`.
        report: the last report of the evaluator.
        evaluator: the termination message of an evaluator that evaluated the last checkpoint.
        gang: the termination message of the leader of the evaluation gang.
    """
    reports: dict[str, EvaluationReport | None] = {}
    if report is not None:
        reports |= {"latest": report.evaluation, "best": report.best_evaluation, "final": report.final_evaluation}
    if evaluator is not None and evaluator.evaluation is not None:
        reports |= {"latest": evaluator.evaluation, "final": evaluator.evaluation}
        reports["best"] = evaluator.best_evaluation or reports.get("best")
    if gang is not None and gang.evaluation is not None:
        reports["final"] = gang.evaluation
    found = {
        name: result.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name, result in reports.items()
        if result
    }
    return {**stored, **found}


_COPIED = {
    "step",
    "total_steps",
    "epoch",
    "examples_per_second",
    "step_time_millis",
    "metrics",
    "last_checkpoint",
}
