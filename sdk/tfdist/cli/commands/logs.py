"""`tfdist logs JOB [ROLE-INDEX]`: prints or follows the logs of the replicas of a job."""

import re
from itertools import islice
from typing import Annotated, Final

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import attach
from tfdist.cli.log_view import LogView, check_replica, new_console, shown_replicas
from tfdist.cli.options import AllReplicas, JobName, replica_argument, seconds
from tfdist.cli.output import message
from tfdist.client.follow import sources
from tfdist.client.job import Job
from tfdist.client.job_handle import JobHandle
from tfdist.client.logs import LogOptions, log_source

_BATCH: Final = 1000
"""Lines that are written at once."""


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
    handle = attach(client, name)
    job = handle.job
    replicas = _replicas(job, replica, all_replicas=all_replicas)
    options = LogOptions(
        replicas=replicas, attempt=_attempt(job, attempt, previous=previous), since=since_seconds, tail=tail
    )
    view = LogView(new_console(job), grep=pattern, timestamps=timestamps)
    if follow:
        _follow(handle, options, view)
        return CommandExitCode.OK
    if not sources(client.api, job, options):
        message(_no_lines_text(handle, options))
        return CommandExitCode.NEGATIVE
    lines = handle.lines(options)
    while batch := list(islice(lines, _BATCH)):
        view.show(batch)
    return CommandExitCode.OK


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


def _replicas(job: Job, replica: str | None, *, all_replicas: bool) -> frozenset[str] | None:
    if replica is None:
        return shown_replicas(job, all_replicas=all_replicas)
    check_replica(job, replica)
    return frozenset({replica})


def _attempt(job: Job, attempt: int | None, *, previous: bool) -> int | None:
    if not previous:
        return attempt
    if attempt is not None:
        raise CommandError("--previous and --attempt: give one of them")
    if not job.status.attempt:
        raise CommandError(f"--previous: {job.name} has no attempt before this one; a restart in place is in the log")
    return job.status.attempt - 1


def _no_lines_text(handle: JobHandle, options: LogOptions) -> str:
    """Return why there are no logs."""
    job = handle.job
    if options.attempt is None:
        return f"{job.name} has no logs: {job.phase}: {job.message}" if job.message else f"{job.name} has no logs"
    attempts = sorted({source.attempt for pod in handle.pods() if (source := log_source(pod))})
    description = f"attempt {', '.join(map(str, attempts))}" if attempts else "no attempt"
    return f"{job.name} has no logs of attempt {options.attempt}: there are pods of {description}"


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise CommandError(f"--grep {text}: not a regular expression: {error}") from None
