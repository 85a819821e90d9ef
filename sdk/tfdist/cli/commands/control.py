"""`tfdist suspend|resume|restart|scale|delete JOB...`: change jobs, and wait for the effect on request."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.api.status import JobPhase
from tfdist.cli.commands.wait import seconds
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import RESOURCE, attach, command, suggesting, without_kind
from tfdist.cli.output import collected_warnings, message, show_warnings
from tfdist.client.client import Client
from tfdist.client.errors import ClientError, Invalid, NoCluster, Unauthorized, WaitTimeout
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job

_IMMUTABLE: Final = "worker.replicas of a running job is immutable"

_STARTED: Final = (JobPhase.RUNNING, JobPhase.EVALUATING, JobPhase.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class _Action:
    request: Callable[[Client, str], Job]
    done: str
    phases: tuple[JobPhase, ...]
    """Phases that the action leads to."""
    starts: bool
    """Whether replicas start after it."""


_ACTIONS: Final = {
    "suspend": _Action(Client.suspend, "suspended", (JobPhase.SUSPENDED,), starts=False),
    "resume": _Action(Client.resume, "resumed", _STARTED, starts=True),
    "restart": _Action(Client.restart, "restarted", _STARTED, starts=True),
}


def execute(client: Client, names: Sequence[str], action: str, *, wait: bool, timeout: str | None) -> int:
    """Change the run of jobs and return the exit code."""
    end = _end(timeout, wait=wait)
    selected = _ACTIONS[action]

    def change(name: str) -> JobHandle:
        with suggesting(client, name), collected_warnings() as caught:
            handle = JobHandle(client, selected.request(client, name))
        print(f"{RESOURCE}/{name} {selected.done}", flush=True)
        show_warnings(caught)
        return handle

    handles, code = _change_each(names, change)
    if wait:
        return _worst([code, *(_wait(handle, selected.phases, end) for handle in handles)])
    if selected.starts and handles:
        message(_next(client, handles))
    return code


def delete(client: Client, names: Sequence[str], *, wait: bool, timeout: str | None) -> int:
    """Delete jobs, wait until they and their pods are deleted, and return the exit code."""
    end = _end(timeout, wait=wait)

    def remove(name: str) -> JobHandle:
        handle = attach(client, name)
        handle.delete()
        print(f"{RESOURCE}/{name} deleted", flush=True)
        return handle

    handles, code = _change_each(names, remove)
    return _worst([code, *(_wait_deleted(handle, end) for handle in handles if wait)])


def scale(client: Client, name: str, workers: int) -> int:
    """Set the number of workers of a job and return the exit code."""
    name = without_kind(name)
    try:
        with suggesting(client, name):
            job = client.scale(name, workers)
    except Invalid as error:
        if _IMMUTABLE not in str(error):
            raise
        suspend = command(client, "suspend", name, "--wait")
        raise CommandError(f'job "{name}" is running: suspend it first ({suspend}), scale it, and resume it') from None
    print(f"{RESOURCE}/{name} scaled")
    if job.is_suspended:
        message(f"next: {command(client, 'resume', name)}")
    return 0


def _change_each(names: Sequence[str], change: Callable[[str], JobHandle]) -> tuple[list[JobHandle], int]:
    """Return the handles of the changed jobs, and exit code 2 if a request failed; the others are still changed.

    Raises:
        NoCluster, Unauthorized: every further request would fail, too.
    """
    handles, code = [], 0
    for name in dict.fromkeys(map(without_kind, names)):
        try:
            handles.append(change(name))
        except (NoCluster, Unauthorized):
            raise
        except (CommandError, ClientError) as error:
            message(error)
            code = ExitCode.FAILED
    return handles, code


def _wait(handle: JobHandle, phases: tuple[JobPhase, ...], end: float | None) -> int:
    try:
        job = handle.wait_for(phases, timeout=_remaining(end))
    except WaitTimeout as error:
        message(error)
        return ExitCode.TIMEOUT
    except ClientError as error:
        message(error)
        return ExitCode.FAILED
    message(f"{job.name} {job.phase}: {job.message}" if job.message else f"{job.name} {job.phase}")
    return 0 if job.phase in phases else ExitCode.NEGATIVE


def _wait_deleted(handle: JobHandle, end: float | None) -> int:
    try:
        handle.wait_deleted(timeout=_remaining(end))
    except WaitTimeout as error:
        message(error)
        return ExitCode.TIMEOUT
    return 0


def _worst(codes: Iterable[int]) -> int:
    """Return the exit code for several jobs: of a failed request, a timeout, a negative result, or 0."""
    statuses = set(codes)
    return next((code for code in (ExitCode.FAILED, ExitCode.TIMEOUT, ExitCode.NEGATIVE) if code in statuses), 0)


def _end(timeout: str | None, *, wait: bool) -> float | None:
    """Return the end of all waits by the monotonic clock."""
    if timeout is None:
        return None
    if not wait:
        raise CommandError("--timeout limits a wait: give --wait as well")
    return time.monotonic() + seconds(timeout)


def _remaining(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


def _next(client: Client, handles: Sequence[JobHandle]) -> str:
    """Return the command that shows the effect."""
    if len(handles) > 1:
        return f"next: {command(client, 'list')}"
    return f"next: {command(client, 'wait', handles[0].name, '--for', 'Running')}"
