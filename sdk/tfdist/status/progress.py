"""Progress of training: from the coordinator's report while it runs, and from its termination message at the end."""

from collections.abc import Mapping
from typing import Any

from tfdist.contract_reports import TerminationMessage
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


_COPIED = {
    "step",
    "total_steps",
    "epoch",
    "examples_per_second",
    "step_time_millis",
    "metrics",
    "last_checkpoint",
}
