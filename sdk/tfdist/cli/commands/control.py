"""`tfdist suspend|resume|restart|scale|delete`: change jobs and sweeps; `tfdist wait`: waits for their phases."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tfdist.api.status import JobPhase
from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.completion import job_names
from tfdist.cli.connection import ClusterOptions, attach_job, name_of, suggesting, to_copy
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.kinds import JOB, Kind, Reference
from tfdist.cli.options import JobName, Name, Names, Timeout, seconds
from tfdist.cli.output import collected_warnings, message, one_line, show_warnings
from tfdist.client.errors import ClientError, Invalid, NoCluster, Unauthorized, WaitTimeout
from tfdist.printable import printable

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.handle import Handle
    from tfdist.client.job import Job
    from tfdist.client.sweep import Sweep


_IMMUTABLE: Final = "worker.replicas of a running job is immutable"

_STARTED: Final = (JobPhase.RUNNING, JobPhase.EVALUATING, JobPhase.SUCCEEDED)

Wait = Annotated[bool, typer.Option("--wait", help="Wait until it has taken effect.")]


@command
def suspend(connection: ClusterOptions, names: Names, *, wait: Wait = False, timeout: Timeout = None) -> int:
    """Suspend jobs or sweeps.

    The pods of a job save a checkpoint and stop; a sweep suspends its jobs and creates no new ones. `resume` continues
    from there. With `--wait` the command ends when they are suspended.

    Exits 0, or 1 if one of them ended instead, 2 if a request fails, 124 after the timeout.
    """
    return change(connection.client(), _references(connection, names), SUSPEND, wait=wait, timeout=timeout)


@command
def resume(connection: ClusterOptions, names: Names, *, wait: Wait = False, timeout: Timeout = None) -> int:
    """Resume suspended jobs or sweeps.

    Jobs continue from their last checkpoints. With `--wait` the command ends when all replicas are running.

    Exits 0, or 1 if one of them failed instead, 2 if a request fails, 124 after the timeout.
    """
    return change(connection.client(), _references(connection, names), RESUME, wait=wait, timeout=timeout)


@command
def restart(
    connection: ClusterOptions,
    names: Annotated[list[str], typer.Argument(metavar="JOB", help="Names of the jobs.", autocompletion=job_names)],
    *,
    wait: Wait = False,
    timeout: Timeout = None,
) -> int:
    """Restart the gangs of jobs.

    Their pods save a checkpoint, stop, and start again with the newest specification. The restart does not count
    against `runPolicy.backoffLimit`. With `--wait` the command ends when all replicas are running again.

    Exits 0, or 1 if a job failed instead, 2 if a request fails, 124 after the timeout.
    """
    jobs = [Reference(JOB, name_of(name, JOB)) for name in names]
    return change(connection.client(), jobs, RESTART, wait=wait, timeout=timeout)


@command
def scale(
    connection: ClusterOptions,
    name: JobName,
    *,
    workers: Annotated[int, typer.Option(metavar="N", min=0, help="Number of workers.")],
) -> int:
    """Set the number of workers of a job that is suspended or has not started.

    Exits 0, or 2 if the job is running or the request fails.
    """
    return set_workers(connection.client(), name_of(name, JOB), workers)


@command
def delete(
    connection: ClusterOptions,
    names: Names,
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the jobs and their pods, or the sweeps, are gone.")
    ] = True,
    timeout: Timeout = None,
) -> int:
    """Delete jobs or sweeps.

    Pods stop within their grace periods. The jobs and results of a sweep are deleted with it. Checkpoints and exported
    models on volumes are kept.

    Exits 0, or 2 if a request fails, 124 after the timeout.
    """
    end = _end(timeout, wait=wait)
    client = connection.client()

    def remove(reference: Reference) -> "Handle[Any]":
        kind, name = reference
        objects = kind.of(client)
        with suggesting(objects, name):
            handle: Handle[Any] = objects.attach(name)
        handle.delete()
        print(f"{kind.resource}/{name} deleted", flush=True)
        return handle

    handles, code = _change_each(_references(connection, names), remove)
    return _worst([code, *(_wait_deleted(handle, end) for handle in handles if wait)])


@dataclass(frozen=True, slots=True)
class ControlAction:
    """A change of the run of a job or sweep."""

    request: Callable[[Any], object]
    """Sends the request by the handle of the job or sweep."""
    done: str
    phases: tuple[JobPhase, ...]
    """Phases that the action leads to."""
    starts: bool
    """Whether replicas start after it."""


SUSPEND: Final = ControlAction(lambda handle: handle.suspend(), "suspended", (JobPhase.SUSPENDED,), starts=False)
RESUME: Final = ControlAction(lambda handle: handle.resume(), "resumed", _STARTED, starts=True)
RESTART: Final = ControlAction(lambda handle: handle.restart(), "restarted", _STARTED, starts=True)


def change(
    client: "Client", references: Sequence[Reference], action: ControlAction, *, wait: bool, timeout: str | None
) -> int:
    """Change the run of jobs and sweeps and return the exit code."""
    end = _end(timeout, wait=wait)

    def request(reference: Reference) -> "Handle[Any]":
        kind, name = reference
        objects = kind.of(client)
        with suggesting(objects, name), collected_warnings() as caught:
            handle: Handle[Any] = objects.attach(name)
            action.request(handle)
        print(f"{kind.resource}/{name} {action.done}", flush=True)
        show_warnings(caught)
        return handle

    handles, code = _change_each(references, request)
    if wait:
        return _worst([code, *(_wait(handle, action.phases, end) for handle in handles)])
    if action.starts and handles:
        message(_next(client, references, handles))
    return code


def set_workers(client: "Client", name: str, workers: int) -> int:
    """Set the number of workers of a job and return the exit code."""
    handle = attach_job(client, name)
    try:
        job = handle.scale(workers)
    except Invalid as error:
        if _IMMUTABLE not in str(error):
            raise
        suspend_command = to_copy(client, "suspend", name, "--wait")
        raise CommandError(
            f'job "{name}" is running: suspend it first ({suspend_command}), scale it, and resume it'
        ) from None
    print(f"{JOB.resource}/{name} scaled")
    if job.is_suspended:
        message(f"next: {to_copy(client, 'resume', name)}")
    return CommandExitCode.OK


def _references(connection: ClusterOptions, names: Sequence[str]) -> list[Reference]:
    return [connection.find(name) for name in names]


def _change_each(
    references: Sequence[Reference], request: "Callable[[Reference], Handle[Any]]"
) -> "tuple[list[Handle[Any]], int]":
    """Return the handles of what was changed, and exit code 2 if a request failed; the others are still changed.

    Raises:
        NoCluster, Unauthorized: every further request would fail, too.
    """
    handles, code = [], 0
    for reference in dict.fromkeys(references):
        try:
            handles.append(request(reference))
        except (NoCluster, Unauthorized):
            raise
        except (CommandError, ClientError) as error:
            message(error)
            code = CommandExitCode.FAILED
    return handles, code


def _wait(handle: "Handle[Any]", phases: tuple[JobPhase, ...], end: float | None) -> int:
    try:
        stored = handle.wait_for(phases, _remaining(end))
    except WaitTimeout as error:
        message(error)
        return CommandExitCode.TIMEOUT
    except ClientError as error:
        message(error)
        return CommandExitCode.FAILED
    message(f"{stored.name} {headline(stored)}")
    return CommandExitCode.OK if stored.phase in phases else CommandExitCode.NEGATIVE


def _wait_deleted(handle: "Handle[Any]", end: float | None) -> int:
    try:
        handle.wait_deleted(timeout=_remaining(end))
    except WaitTimeout as error:
        message(error)
        return CommandExitCode.TIMEOUT
    return CommandExitCode.OK


def _worst(codes: Iterable[int]) -> int:
    """Return the exit code for several objects: for a failed request, a timeout, a negative result, or 0."""
    statuses = set(codes)
    return next(
        (
            code
            for code in (CommandExitCode.FAILED, CommandExitCode.TIMEOUT, CommandExitCode.NEGATIVE)
            if code in statuses
        ),
        0,
    )


def _end(timeout: str | None, *, wait: bool) -> float | None:
    """Return the end of all waits by the monotonic clock."""
    if timeout is None:
        return None
    if not wait:
        raise CommandError("--timeout limits a wait: give --wait as well")
    return time.monotonic() + seconds(timeout)


def _remaining(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def _next(client: "Client", references: Sequence[Reference], handles: "Sequence[Handle[Any]]") -> str:
    """Return the command that shows the effect."""
    group = references[0].kind.group
    if len(handles) > 1:
        return f"next: {to_copy(client, *group, 'list')}"
    return f"next: {to_copy(client, *group, 'wait', handles[0].name, '--for', 'Running')}"


@command
def wait(
    connection: ClusterOptions,
    name: Name,
    *,
    phase: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="PHASE",
            help="Phase to wait for; default: the end.",
            show_default=False,
            autocompletion=completion.phases,
        ),
    ] = "",
    timeout: Timeout = None,
) -> int:
    """Wait until a job or sweep has ended, or reaches a phase.

    Exits with the exit code of the job or sweep, as `tfdist attach` does; 0 if it reaches the phase; 124 after the
    timeout; 2 if a request fails.
    """
    kind, own_name = connection.find(name)
    phases = _phases(phase, kind)
    limit = None if timeout is None else seconds(timeout)
    objects = kind.of(connection.client())
    with suggesting(objects, own_name):
        handle = objects.attach(own_name)
    try:
        stored = handle.wait_for(phases, limit)
    except WaitTimeout as error:
        message(error)
        return CommandExitCode.TIMEOUT
    message(f"{stored.name} {headline(stored)}")
    return CommandExitCode.OK if stored.phase in phases else stored.exit_code


def headline(stored: "Job | Sweep") -> str:
    """Return the phase of a job or sweep and, if there is one, its reason."""
    return f"{stored.phase}: {one_line(printable(stored.message))}" if stored.message else str(stored.phase)


def _phases(text: str, kind: Kind) -> tuple[str, ...]:
    """Return the phase that a user has written in any case."""
    if not text:
        return ()
    for phase in kind.phases:
        if phase.lower() == text.lower():
            return (phase,)
    raise CommandError(f"--for {text}: write a phase of a {kind.noun}: {', '.join(kind.phases)}")
