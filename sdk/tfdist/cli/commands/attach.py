"""`tfdist attach JOB`: follows the logs, phases and progress of a job to its end; the job does not depend on it."""

import sys
from collections.abc import Iterator

from tfdist import outcome
from tfdist.api.status import ExportStatus, JobPhase
from tfdist.cli.console import RunConsole
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import attach, command, without_kind
from tfdist.cli.log_view import LogView, leader_name, new_console, shown_replicas
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job, result_of
from tfdist.client.logs import LogOptions, LogSource
from tfdist.contract import MAIN_CONTAINER, Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist.local import progress


def execute(client: Client, name: str, *, tail: int | None = None, all_replicas: bool = False) -> int:
    """Follow a job and return its exit code, or 130 after Ctrl-C.

    Args:
        client: in the namespace of the job.
        name: of the job.
        tail: begin with so many lines of each log; by default with all.
        all_replicas: whether the logs of more than 16 replicas are shown.

    Raises:
        ClientError: a request failed, or the job was deleted.
    """
    name = without_kind(name)
    try:
        return _follow(attach(client, name), tail, all_replicas=all_replicas)
    except KeyboardInterrupt:
        message(_detach_text(client, name))
        return ExitCode.INTERRUPTED


def _follow(handle: JobHandle, tail: int | None, *, all_replicas: bool) -> int:
    console = new_console(handle.job)
    options = LogOptions(replicas=shown_replicas(handle.job, all_replicas=all_replicas), tail=tail)
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
        self._leader = leader_name(job)
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
        report = progress.unless_stopping(job.phase, _report(job))
        if report is not None and report.attempt == self._ended_attempt:
            return
        if report is not None or sys.stdout.isatty():  # a plain line would repeat the phase
            self._console.progress(job.phase, report)


def _restarts(job: Job) -> int:
    counts = job.status.restarts
    return counts.counted + counts.uncounted if counts else 0


def _cause(job: Job) -> str:
    """Return the failure that the last restart was for."""
    failure = outcome.root_cause(job.status)
    return f"{failure.role}-{failure.index}: {failure.message}" if failure else "by request, or by the cluster"


def _report(job: Job) -> ProgressReport | None:
    """Return the progress of a job in the form of a report."""
    reported = job.status.progress
    if reported is None or reported.step is None:
        return None
    return ProgressReport(
        role=Role.WORKER,
        index=0,
        attempt=job.status.attempt or 0,
        phase=Phase.UNKNOWN,
        step=reported.step,
        total_steps=reported.total_steps,
        percent=reported.percent,
        examples_per_second=reported.examples_per_second,
        remaining_seconds=reported.eta_seconds,
        metrics=reported.metrics or {},
    )


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


def _detach_text(client: Client, name: str) -> str:
    """Return how the user finds the job again."""
    attach_command, suspend, delete = (command(client, word, name) for word in ("attach", "suspend", "delete"))
    return f"detached; {name} goes on. Attach again: {attach_command}; stop it for now: {suspend}; delete it: {delete}"
