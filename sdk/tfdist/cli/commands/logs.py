"""`tfdist logs JOB [ROLE-INDEX]`: prints or follows the logs of the replicas of a job."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from tfdist.cli.commands.wait import seconds
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import attach, without_kind
from tfdist.cli.log_view import LogView, check_replica, new_console, shown_replicas
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.follow import sources
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job
from tfdist.client.logs import LogOptions, LogSource, log_source

_BATCH: Final = 1000
"""Lines that are written at once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options of the command that select lines."""

    replica: str | None = None
    attempt: int | None = None
    previous: bool = False
    since: str | None = None
    tail: int | None = None
    all_replicas: bool = False


def execute(client: Client, name: str, request: Wanted, *, follow: bool, grep: str | None, timestamps: bool) -> int:
    """Print the logs of a job and return the exit code."""
    pattern = _pattern(grep)
    since = None if request.since is None else seconds(request.since, "--since")
    handle = attach(client, without_kind(name))
    job = handle.job
    options = LogOptions(
        replicas=_replicas(job, request), attempt=_attempt(job, request), since=since, tail=request.tail
    )
    view = LogView(new_console(job), grep=pattern, timestamps=timestamps)
    if follow:
        _follow(handle, options, view)
        return 0
    if not sources(client, job, options):
        message(_no_lines_text(client, job, options))
        return ExitCode.NEGATIVE
    lines = handle.lines(options)
    while batch := list(islice(lines, _BATCH)):
        view.show(batch)
    return 0


def _follow(handle: JobHandle, options: LogOptions, view: LogView) -> None:
    """Print lines as they arrive; before the first one, what the job waits for."""
    previous_wait, has_lines = "", False
    for event in handle.follow(options):
        if isinstance(event, Job):
            waits = f"{event.phase}: {event.message}" if event.message else str(event.phase)
            if not has_lines and waits != previous_wait:
                message(waits)
                previous_wait = waits
        elif isinstance(event, list):
            has_lines = True
            view.show(event)


def _replicas(job: Job, request: Wanted) -> frozenset[str] | None:
    if request.replica is None:
        return shown_replicas(job, all_replicas=request.all_replicas)
    check_replica(job, request.replica)
    return frozenset({request.replica})


def _attempt(job: Job, request: Wanted) -> int | None:
    if not request.previous:
        return request.attempt
    if request.attempt is not None:
        raise CommandError("--previous and --attempt: give one of them")
    if not job.status.attempt:
        raise CommandError(f"--previous: {job.name} has no attempt before this one; a restart in place is in the log")
    return job.status.attempt - 1


def _no_lines_text(client: Client, job: Job, options: LogOptions) -> str:
    """Return why there is no log."""
    if options.attempt is None:
        return f"{job.name} has no logs: {job.phase}: {job.message}" if job.message else f"{job.name} has no logs"
    attempts = sorted({source.attempt for source in _sources(client, job)})
    description = f"attempt {', '.join(map(str, attempts))}" if attempts else "no attempt"
    return f"{job.name} has no logs of attempt {options.attempt}: there are pods of {description}"


def _sources(client: Client, job: Job) -> Iterator[LogSource]:
    pods = map(log_source, client.pods(job.name))
    return (source for source in pods if source is not None)


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise CommandError(f"--grep {text}: not a regular expression: {error}") from None
