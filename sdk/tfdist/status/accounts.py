"""The history of a job in its status: usage, attempts, progress over time.

It changes continuously, and is written only together with another change, so that it adds no request.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from tfdist.api.status import Progress, TFDistJobStatus
from tfdist.contract_reports import ProgressReport
from tfdist.observed.job_view import JobView
from tfdist.status.attempts import Attempts
from tfdist.status.history import history_of
from tfdist.status.phase import is_terminal, training_succeeded
from tfdist.status.update import StatusWrite
from tfdist.status.usage import usage_of, with_steps

_FIELDS: Final = frozenset({"usage", "attempts", "history"})


def with_accounts(write: StatusWrite, view: JobView, report: ProgressReport | None, now: datetime) -> StatusWrite:
    """Return the write of a job that has not finished before, with its history.

    Args:
        write: the write, with the stored history; a write without a status stays as it is.
        view: the job.
        report: the last report of the leader of the current attempt.
        now: the time.
    """
    if write.status is None:
        return write
    old, new = view.status, write.status
    attempts = Attempts(old, new, report, now)
    usage = usage_of(old.usage, view.pods, now)
    if attempts.steps is not None:
        usage = with_steps(usage, attempts.steps)
    has_ended = is_terminal(new) or training_succeeded(new)
    before, after = (status.progress or Progress() for status in (old, new))
    points = history_of(old.history or (), before, after, ended=has_ended)
    accounts = {"usage": usage, "attempts": attempts.entries, "history": points}
    return replace(write, status=new.model_copy(update={name: value for name, value in accounts.items() if value}))


def with_final_usage(status: TFDistJobStatus | None, view: JobView, now: datetime) -> TFDistJobStatus | None:
    """Return the status of a finished job with its usage; None for no write.

    The end of the last pod is always written, since usage would increase without it.
    """
    stored = view.status.usage
    usage = usage_of(stored, view.pods, now) if stored else None
    if stored is None or usage is None:
        return status
    stops = (stored.gpus or stored.cpus) and not (usage.gpus or usage.cpus)
    return (status or view.status).model_copy(update={"usage": usage}) if status or stops else None


def without_accounts(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status, as JSON, without the fields whose changes alone cause no write."""
    return {name: value for name, value in status.items() if name not in _FIELDS}
