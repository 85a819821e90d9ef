"""The termination message of a replica: at most 1 KiB of JSON, and what the function of the job has returned.

The controller reads it after the pod has terminated, when the report server no longer runs; so it repeats the final
metrics and the result of an evaluation. The last line of the error comes first, so that it is visible even if only
the beginning is shown.
"""

import bisect
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tfdist.contract import TERMINATION_LOG_ENV, TERMINATION_MESSAGE_BYTES
from tfdist.contract_reports import GangEnd, ProgressReport, TerminationMessage

PATH_ENV: Final = TERMINATION_LOG_ENV
DEFAULT_PATH: Final = Path("/dev/termination-log")
ELLIPSIS: Final = "..."
"""Suffix of a truncated message."""


def compose(reason: str, message: str, report: ProgressReport, gang_end: GangEnd | None = None) -> str:
    """Return the JSON of the message, with `message` truncated so that it fits into 1 KiB without a returned value."""
    full = TerminationMessage(
        reason=reason,
        message=message,
        step=report.step,
        total_steps=report.total_steps,
        percent=report.percent,
        epoch=report.epoch,
        attempt=report.attempt,
        metrics=report.metrics,
        last_checkpoint=report.last_checkpoint,
        evaluation=report.final_evaluation or report.evaluation,
        best_evaluation=report.best_evaluation,
        trains_alone=report.trains_alone,
        untested_versions=report.untested_versions,
        saves_checkpoints=report.saves_checkpoints,
        exports=report.exports,
        returned=report.returned,
        gang_end=gang_end,
    )
    # Nearly always.
    if _fits(full):
        return full.to_json()
    # Too many metrics: the cause, the checkpoint and the exports are more important, then the last evaluation.
    for field, empty in (("metrics", {}), ("best_evaluation", None), ("evaluation", None)):
        if not _fits(_cut(full, 0)):
            full = full.model_copy(update={field: empty})
            if _fits(full):
                return full.to_json()
    # The encoded length grows with each character by a different amount: search.
    longest = bisect.bisect_left(range(len(message)), True, key=lambda n: not _fits(_cut(full, n + 1)))
    return _cut(full, longest).to_json()


def _cut(message: TerminationMessage, length: int) -> TerminationMessage:
    return message.model_copy(update={"message": message.message[:length] + ELLIPSIS})


def _fits(message: TerminationMessage) -> bool:
    without_value = message.model_copy(update={"returned": None})
    return len(without_value.to_json().encode()) <= TERMINATION_MESSAGE_BYTES


def path_from(environ: Mapping[str, str]) -> Path:
    """Return the path of the termination message."""
    return Path(environ.get(PATH_ENV) or DEFAULT_PATH)


def write(path: Path, text: str) -> None:
    """Write `text` to `path`. Outside a pod the file does not exist, which is not an error."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        return


def write_unless_present(path: Path, cause: str) -> None:
    """Write a cause as the termination message at `path`, unless the program has written one."""
    with contextlib.suppress(OSError):
        if not path.exists() or not path.stat().st_size:
            path.write_text(cause, encoding="utf-8")
