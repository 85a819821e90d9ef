"""Progress of training: from the coordinator's report while it runs, from its last words when it has ended."""

from collections.abc import Mapping
from typing import Any

from tfdist.contract_reports import ProgressReport, TerminationMessage
from tfdist_operator.observed.view import Report


def progress_of(report: Report, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return `status.progress` for a report; of what it does not give, only the last checkpoint is still known."""
    content = report.content
    fields = content.model_dump(mode="json", by_alias=True, exclude_none=True, include=_COPIED)
    for name in ("examplesPerSecond", "stepTimeMillis"):
        if name in fields:
            fields[name] = round(fields[name], 1)
    fields["percent"] = _percent(content.step, content.total_steps)
    fields["etaSeconds"] = _eta_seconds(content)
    fields["reportedAt"] = report.read_at
    known = {k: v for k, v in stored.items() if k == "lastCheckpoint"}
    return known | {k: v for k, v in fields.items() if v not in (None, {})}


def final_progress(stored: dict[str, Any], words: TerminationMessage) -> dict[str, Any]:
    """Return `status.progress` after the end: the last report, brought up to date by the termination message."""
    result = dict(stored)
    if words.step is not None:
        result["step"] = words.step
        percent = _percent(words.step, result.get("totalSteps"))
        result |= {"percent": percent} if percent is not None else {}
    if words.metrics:
        result["metrics"] = dict(words.metrics)
    if words.last_checkpoint is not None:
        result["lastCheckpoint"] = words.last_checkpoint.model_dump(mode="json", by_alias=True)
    result.pop("etaSeconds", None)
    return result


_COPIED = {
    "step",
    "total_steps",
    "epoch",
    "examples_per_second",
    "step_time_millis",
    "metrics",
    "last_checkpoint",
}


def _percent(step: int | None, total: int | None) -> int | None:
    if step is None or not total:
        return None
    return min(100, step * 100 // total)


def _eta_seconds(content: ProgressReport) -> int | None:
    if content.step is None or not content.total_steps or not content.step_time_millis:
        return None
    return round((content.total_steps - content.step) * content.step_time_millis / 1000)
