"""`tfdist attach NAME`: follows a job or sweep to its end; the job or sweep does not depend on it."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tfdist import outcome
from tfdist.api.status import ExportStatus, JobPhase
from tfdist.cli.command_line import command
from tfdist.cli.commands.control import headline
from tfdist.cli.commands.logs import LogView, new_console, selected_replicas
from tfdist.cli.connection import ClusterOptions, attach_job, attach_sweep, to_copy
from tfdist.cli.console import RunConsole
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.kinds import JOB, SWEEP, Reference
from tfdist.cli.options import AllReplicas, Name
from tfdist.cli.output import message
from tfdist.client.container_log import LogOptions, LogSource
from tfdist.client.job import Job, result_of
from tfdist.client.job_handle import JobHandle
from tfdist.contract import MAIN_CONTAINER
from tfdist.local import progress

if TYPE_CHECKING:
    from tfdist.client.client import Client
    from tfdist.client.sweep_handle import SweepHandle

_TAIL: Final = 10


@command
def attach(
    connection: ClusterOptions,
    name: Name,
    *,
    tail: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"Begin with the last N lines of each replica of a job; default: {_TAIL}.",
            show_default=False,
        ),
    ] = None,
    all_replicas: AllReplicas = False,
) -> int:
    """Follow a job or sweep to its end.

    For a job, prints the logs, phases and progress, and the result; for a sweep, the phase, the best trial and the
    number of trials after each change. Ctrl-C detaches; the job or sweep continues.

    Exits 0 if it succeeds, 124 if it exceeds a deadline, 130 after Ctrl-C, 2 if a request fails; otherwise with the
    exit code of the replica that failed the job, or 1 for a sweep that fails or is invalid.
    """
    reference = connection.find(name)
    if reference.kind is SWEEP and (tail is not None or all_replicas):
        option = "--all" if tail is None else "--tail"
        raise CommandError(f"{option}: a sweep has no log: leave it out, or attach to one of its jobs")
    return follow(connection.client(), reference, tail=tail or _TAIL, all_replicas=all_replicas)


def follow(client: "Client", reference: Reference, *, tail: int | None = None, all_replicas: bool = False) -> int:
    """Follow a job or sweep and return its exit code, or 130 after Ctrl-C.

    Args:
        client: in its namespace.
        reference: the job or sweep.
        tail: begin with this number of lines of each log of a job; default: all.
        all_replicas: whether the logs of more than 16 replicas are shown.

    Raises:
        CommandError: it does not exist.
        ClientError: a request failed, or it was deleted.
    """
    kind, name = reference
    try:
        if kind is JOB:
            return _follow_job(attach_job(client, name), tail, all_replicas=all_replicas)
        return _follow_sweep(client, attach_sweep(client, name))
    except KeyboardInterrupt:
        message(_detach_text(client, reference))
        return CommandExitCode.INTERRUPTED


def _follow_sweep(client: "Client", handle: "SweepHandle") -> int:
    previous = ""
    for sweep in handle.watch():
        current = headline(sweep)
        if current != previous:
            print(f"{sweep.name} {current}", flush=True)
            previous = current
        if sweep.is_finished:
            break
    message(f"results: {to_copy(client, 'sweep', 'results', handle.name)}")
    return handle.sweep.exit_code


def _follow_job(handle: JobHandle, tail: int | None, *, all_replicas: bool) -> int:
    console = new_console(handle.job)
    options = LogOptions(replicas=selected_replicas(handle.job, all_replicas=all_replicas), tail=tail)
    view, phases = LogView(console), _Phases(console, handle.job)
    try:
        for event in handle.follow(options):
            if isinstance(event, Job):
                phases.update(event)
            elif isinstance(event, list):
                view.show(event)
            else:
                phases.end_of_log(event)
    finally:
        console.close()
    for line in _result(handle.job):
        console.message(line)
    return handle.job.exit_code


class _Phases:
    """Shows the phase and progress of a job on the console."""

    def __init__(self, console: RunConsole, job: Job) -> None:
        self._console = console
        self._shown = ""
        self._phase: JobPhase | None = None
        self._restarts: int | None = None
        self._leader = next((gang.leader.name for gang in job.gangs), "")
        self._ended_attempt: int | None = None
        """Attempt of training whose leader has ended: the progress that the status has then is older."""

    def end_of_log(self, source: LogSource) -> None:
        """Show no progress after the last line of the replica that reports it."""
        if source.name == self._leader and source.container == MAIN_CONTAINER:
            self._ended_attempt = source.attempt
            self._console.close()

    def update(self, job: Job) -> None:
        """Show what has changed. The result of a job that has ended follows its last lines."""
        if job.is_finished:
            return
        restarts = _restarts(job)
        if self._restarts is not None and restarts > self._restarts and JobPhase.RESTARTING not in {
            job.phase, self._phase
        }:  # fmt: skip
            self._console.message(f"Restarted: {_cause(job)}")
        headline = f"{job.phase}: {job.message}" if job.message else str(job.phase)
        if headline != self._shown:
            self._console.message(headline)
        self._shown, self._phase, self._restarts = headline, job.phase, restarts
        reported = progress.unless_stopping(job.phase, job.status.progress)
        if reported is not None and reported.step is None:
            reported = None
        if reported is not None and (job.status.attempt or 0) == self._ended_attempt:
            return
        if reported is not None or sys.stdout.isatty():  # a plain line would repeat the phase
            self._console.progress(job.phase, reported)


def _restarts(job: Job) -> int:
    counts = job.status.restarts
    return counts.counted + counts.uncounted if counts else 0


def _cause(job: Job) -> str:
    """Return the failure that the last restart was for."""
    failure = outcome.root_cause(job.status)
    return f"{failure.role}-{failure.index}: {failure.message}" if failure else "by request, or by the cluster"


def _result(job: Job) -> Iterator[str]:
    """Yield the phase of a job that has ended, its last evaluation, and its models."""
    yield f"{job.name} {job.phase}: {job.message}" if job.message else f"{job.name} {job.phase}"
    result = result_of(job)
    if result.evaluation is not None and f"at step {result.evaluation.step}: " not in job.message:
        yield f"evaluation at step {result.evaluation.step}: {progress.metrics(result.evaluation.metrics, digits=4)}"
    models = result.export or ExportStatus()
    for kind, model in (("last", models.final), ("best", models.best)):
        if model is not None:
            yield f"{kind} model, of step {model.step}: {model.directory}"


def _detach_text(client: "Client", reference: Reference) -> str:
    """Return how the user finds the job or sweep again."""
    kind, name = reference
    attach_again, suspend, delete = (
        to_copy(client, *kind.group, verb, name) for verb in ("attach", "suspend", "delete")
    )
    return f"detached; {name} goes on. Attach again: {attach_again}; stop it for now: {suspend}; delete it: {delete}"
