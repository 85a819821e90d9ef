"""Results of evaluation: from the evaluator's report while it runs, and from last words, which stay with the pod."""

from collections.abc import Mapping
from typing import Any

from tfdist.contract_reports import EvaluationReport, ProgressReport, TerminationMessage


def evaluation_of(
    stored: Mapping[str, Any],
    told: ProgressReport | None,
    evaluator: TerminationMessage | None,
    gang: TerminationMessage | None,
) -> dict[str, Any]:
    """Return `status.evaluation`; what nobody tells stays as it is stored.

    Args:
        stored: the stored `status.evaluation`.
        told: the evaluator's last report.
        evaluator: the last words of an evaluator that has scored the last checkpoint.
        gang: the last words of the leader of a gang that has evaluated.
    """
    reports: dict[str, EvaluationReport | None] = {}
    if told is not None:
        reports |= {"latest": told.evaluation, "best": told.best_evaluation, "final": told.final_evaluation}
    if evaluator is not None and evaluator.evaluation is not None:
        reports |= {"latest": evaluator.evaluation, "final": evaluator.evaluation}
        reports["best"] = evaluator.best_evaluation or reports.get("best")
    if gang is not None and gang.evaluation is not None:
        reports["final"] = gang.evaluation
    found = {name: report.model_dump(mode="json", by_alias=True) for name, report in reports.items() if report}
    return {**stored, **found}
