"""`tfdist logs JOB [ROLE-INDEX]`: prints or follows the logs of the replicas of a job."""

import re
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Annotated, Final

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job
from tfdist.cli.console import RunConsole
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.options import AllReplicas, JobName, replica_argument, seconds
from tfdist.cli.output import message
from tfdist.client.container_log import LogLine, LogOptions, log_source
from tfdist.client.job import Job
from tfdist.client.job_handle import JobHandle
from tfdist.client.logs import sources
from tfdist.contract import Role

_BATCH: Final = 1000
"""Lines that are written at once."""
_MOST_REPLICAS: Final = 16
"""The logs of more replicas are shown on request only: each line of a few hundred would hide the others."""
_GANG_ROLES: Final = frozenset({Role.CHIEF, Role.WORKER, Role.PS})


@command
def logs(
    connection: ClusterOptions,
    name: JobName,
    replica: Annotated[str | None, replica_argument("Such as worker-0; default: all.")] = None,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Continue until the job has ended.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only lines of the last 90s, 10m or 1h.")
    ] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the last N lines of each replica.")] = None,
    attempt: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Attempt, if its pods are kept; default: the latest.", show_default=False
        ),
    ] = None,
    previous: Annotated[bool, typer.Option("-p", "--previous", help="The attempt before the latest.")] = False,
    grep: Annotated[str | None, typer.Option(metavar="REGEX", help="Only lines that match.")] = None,
    all_replicas: AllReplicas = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin each line with its time.")] = False,
) -> int:
    """Print the logs of the replicas of a job.

    Each line begins with the name of its replica. The lines of several replicas are in order of time; with --follow
    they are in the order in which they arrive. If a replica could not start, the log of its init container is printed,
    as worker-0/fetch.

    Exits 0, or 1 if there are no logs, 2 if a request fails.
    """
    pattern = _pattern(grep)
    since_seconds = None if since is None else seconds(since, "--since")
    client = connection.client()
    handle = attach_job(client, name)
    replicas = selected_replicas(handle.job, replica, all_replicas=all_replicas)
    attempt = _previous(handle.job, attempt) if previous else attempt
    options = LogOptions(replicas=replicas, attempt=attempt, since=since_seconds, tail=tail)
    if not follow and not sources(client.api, handle.job, options):
        message(_no_logs_text(handle, attempt))
        return CommandExitCode.NEGATIVE
    view = LogView(new_console(handle.job), grep=pattern, timestamps=timestamps)
    for lines in _followed(handle, options) if follow else _batches(handle.lines(options)):
        view.show(lines)
    return CommandExitCode.OK


class LogView:
    """Writes log lines to a console, with a line between two attempts."""

    def __init__(self, console: RunConsole, *, grep: re.Pattern[str] | None = None, timestamps: bool = False) -> None:
        """Show lines that match `grep`, with their times if `timestamps`."""
        self._console, self._grep, self._timestamps = console, grep, timestamps
        self._attempts: dict[str, int] = {}

    def show(self, lines: Iterable[LogLine]) -> None:
        """Write lines in their order, as many as possible in one call of the console, which costs more than a line."""
        pending: list[tuple[str, str]] = []
        for (replica, attempt), group in groupby(lines, lambda line: (line.replica, line.attempt)):
            if separator := self._separator(replica, attempt):
                self._console.log_lines(pending)
                self._console.message(separator)
                pending = []
            texts = map(self._text, group)
            pending += [(replica, text) for text in texts if self._grep is None or self._grep.search(text)]
        self._console.log_lines(pending)

    def _separator(self, replica: str, attempt: int) -> str:
        """Return the line that goes before one of a later attempt, or "" for none."""
        role = replica.partition("-")[0]
        gang = "" if role in _GANG_ROLES else f" of {replica}"
        if attempt <= self._attempts.setdefault(gang, attempt):
            return ""
        self._attempts[gang] = attempt
        return f"---- attempt {attempt}{gang} ----"

    def _text(self, line: LogLine) -> str:
        # Of a line that is overwritten by carriage returns, as a progress bar, only the last state.
        text = line.text.rpartition("\r")[2]
        return f"{line.time} {text}" if self._timestamps else text


def new_console(job: Job) -> RunConsole:
    """Return the console for the logs of a job, on standard output."""
    return RunConsole(sys.stdout, job.replica_names, time.monotonic)


def selected_replicas(job: Job, replica: str | None = None, *, all_replicas: bool = False) -> frozenset[str] | None:
    """Return the replicas whose logs are shown, or None for all; a message names the omitted ones.

    Raises:
        CommandError: the job has no such replica; with the names that it has.
    """
    names = job.replica_names
    if replica is None and (all_replicas or len(names) <= _MOST_REPLICAS):
        return None
    if replica is None:
        leaders = [gang.leader.name for gang in job.gangs]
        leader_text = f"{leaders[0]}, which leads" if len(leaders) == 1 else f"{', '.join(leaders)}, which lead"
        message(f"{job.name} has {len(names)} replicas: only the log of {leader_text}, is shown; --all shows all")
        return frozenset(leaders)
    if names and replica not in names:
        sizes = [size for gang in job.gangs for size in gang.sizes().items()]
        ranges = [f"{role}-0" + (f" to {role}-{number - 1}" if number > 1 else "") for role, number in sizes]
        raise CommandError(f"{job.name} has no replica {replica}: it has {', '.join(ranges)}")
    return frozenset({replica})


def _batches(lines: Iterator[LogLine]) -> Iterator[list[LogLine]]:
    while batch := list(islice(lines, _BATCH)):
        yield batch


def _followed(handle: JobHandle, options: LogOptions) -> Iterator[list[LogLine]]:
    """Yield lines as they arrive; write before the first one what the job waits for."""
    previous_wait, has_lines = "", False
    for event in handle.follow(options):
        if isinstance(event, list):
            has_lines = True
            yield event
        elif isinstance(event, Job) and not has_lines:
            wait = f"{event.phase}: {event.message}" if event.message else str(event.phase)
            if wait != previous_wait:
                message(wait)
            previous_wait = wait


def _previous(job: Job, attempt: int | None) -> int:
    if attempt is not None:
        raise CommandError("--previous and --attempt: give one of them")
    if not job.status.attempt:
        raise CommandError(f"--previous: {job.name} has no attempt before this one; a restart in place is in the log")
    return job.status.attempt - 1


def _no_logs_text(handle: JobHandle, attempt: int | None) -> str:
    job = handle.job
    if attempt is None:
        return f"{job.name} has no logs: {job.phase}: {job.message}" if job.message else f"{job.name} has no logs"
    attempts = sorted({source.attempt for pod in handle.pods() if (source := log_source(pod))})
    description = f"attempt {', '.join(map(str, attempts))}" if attempts else "no attempt"
    return f"{job.name} has no logs of attempt {attempt}: there are pods of {description}"


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise CommandError(f"--grep {text}: not a regular expression: {error}") from None
