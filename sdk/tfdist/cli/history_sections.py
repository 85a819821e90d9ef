"""The sections Usage and Attempts of `tfdist describe`."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tfdist.api.history_status import AttemptStatus
from tfdist.cli.output import one_line
from tfdist.cli.tables import age, text_table
from tfdist.cli.usage_table import amount, percentage, spent
from tfdist.printable import printable
from tfdist.timestamps import parse_time

if TYPE_CHECKING:
    from tfdist.client.job import Job


def usage_fields(job: "Job", now: datetime) -> Iterator[tuple[str, str]]:
    """Yield label and text of what a job used up to a time; none before its first pod."""
    usage = job.status.usage
    if usage is None:
        return
    use = spent(job, now)
    for label, hours, now_used in (("GPU", use.gpu_hours, usage.gpus), ("CPU", use.cpu_hours, usage.cpus)):
        yield f"{label} Hours", f"{hours:,.2f}" + (f" ({amount(now_used)} in use)" if now_used else "")
    if usage.productive_seconds is not None:
        for label, seconds, share in (
            ("Productive", usage.productive_seconds, use.productive),
            ("Lost", usage.lost_seconds or 0.0, use.lost),
        ):
            of_all = f" ({percentage(share)} of the time of all attempts)" if share is not None else ""
            yield label, f"{age(timedelta(seconds=seconds))}{of_all}"


def attempt_lines(job: "Job", now: datetime, width: int | None) -> list[str]:
    """Return the table of the attempts of a job; empty without one."""
    attempts = job.status.attempts or []
    if not attempts:
        return []
    rows = [[*_cells(attempt, now), _end(attempt)] for attempt in attempts]
    headings = ("Attempt", "Age", "Duration", "Steps", "Recovered", "End")
    return ["Attempts:", *text_table(headings, rows, width=width)]


def _cells(attempt: AttemptStatus, now: datetime) -> list[str]:
    begun = parse_time(attempt.started_at)
    end = parse_time(attempt.ended_at) if attempt.ended_at else now
    number = str(attempt.attempt) if attempt.round is None else f"{attempt.attempt}, round {attempt.round}"
    step_range = "" if attempt.to_step is None else f"{attempt.from_step or 0}-{attempt.to_step}"
    recovery_seconds = attempt.seconds_to_recover
    recovery = "" if recovery_seconds is None else age(timedelta(seconds=recovery_seconds))
    return [number, age(now - begun), age(end - begun), step_range, recovery]


def _end(attempt: AttemptStatus) -> str:
    if attempt.ended_at is None:
        return ""
    node = f" on {attempt.node}" if attempt.node else ""
    cause = f": {attempt.root_cause}{node}" if attempt.root_cause else ""
    return one_line(printable(f"{attempt.reason or 'ended'}{cause}"))
