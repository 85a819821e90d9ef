"""The termination message: the last words of a replica, at most 1 KiB of JSON.

The controller reads it after the pod has ended, when the report port is gone; so the final metrics and the
result of an evaluation are repeated here. The last line of the error comes first, because a reader who
sees only part of it must see that part.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tfdist.contract import TERMINATION_MESSAGE_BYTES, ProgressReport, TerminationMessage

PATH_ENV: Final = "TFDIST_TERMINATION_LOG"
DEFAULT_PATH: Final = Path("/dev/termination-log")


def compose(reason: str, message: str, report: ProgressReport) -> str:
    """Return the JSON of the message, with `message` cut as far as needed to fit into 1 KiB."""
    text = message
    while True:
        encoded = TerminationMessage(
            reason=reason,
            message=text,
            step=report.step,
            attempt=report.attempt,
            metrics=report.metrics,
            last_checkpoint=report.last_checkpoint,
            evaluation=report.evaluation,
        ).to_json()
        excess = len(encoded.encode()) - TERMINATION_MESSAGE_BYTES
        if excess <= 0 or not text:
            return encoded
        # A character may take several bytes or an escape, so cutting as many characters as there are bytes
        # too many always ends, and at worst says a little less.
        text = text[: max(0, len(text) - max(excess, 1) - 1)].rstrip() + "…" if len(text) > excess else ""


def path_from(environ: Mapping[str, str]) -> Path:
    """Return where the message goes."""
    return Path(environ.get(PATH_ENV) or DEFAULT_PATH)


def write(path: Path, text: str) -> None:
    """Write `text` to `path`. A process outside a pod has no such file, and that is no failure."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        return
