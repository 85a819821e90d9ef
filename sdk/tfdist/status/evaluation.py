"""Evaluation results: from the report of a running evaluator, and from termination messages after the end."""

from collections.abc import Mapping
from typing import Any

from tfdist.contract_reports import EvaluationReport, ProgressReport, TerminationMessage


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
