"""Progress reports of a user's script: `tfdist_trainer.report(step=..., metrics=...)`.

Reports are optional. With them the job's status shows the progress, and the controller detects a stalled script. In a
job the first call starts the report server; otherwise `report` only stores the values. A report never fails a script:
a server that cannot start is logged once, and a value that is not one finite number is omitted.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tfdist.contract import JOB_ENV, REPORT_PORT_ENV, Phase, Role
from tfdist.contract_reports import CheckpointReport, ExportReport, FunctionReport, ProgressReport, SlowReplica
from tfdist_trainer import environment, errors, heartbeat, log, report_server, script_end, termination
from tfdist_trainer.reporter import Reporter, first_report
from tfdist_trainer.scalars import count, finite_number, finite_numbers
from tfdist_trainer.script_evaluations import LOWEST_LOSS, ScriptEvaluations, best_policy
from tfdist_trainer.timestamps import now_text

_ALONE: Final = ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.STARTING)


class ScriptReports:
    """The reports of the script in this process."""

    def __init__(self) -> None:
        self.reporter = Reporter(_ALONE)
        self.evaluations = ScriptEvaluations(LOWEST_LOSS, "", self.reporter.update)
        self._since: tuple[int, float] | None = None
        self._start()

    def report(self, **fields: Any) -> None:
        """Replace the given fields of the report, and compute the time of a step."""
        step = fields.get("step")
        if step is not None:
            fields |= {"step_at": now_text()} | self._speed(step)
        self.reporter.update(**fields)

    def _start(self) -> None:
        if JOB_ENV not in os.environ and REPORT_PORT_ENV not in os.environ:
            return
        try:
            if JOB_ENV in os.environ:
                job, round_number = environment.read_replica(os.environ)
                self.reporter.replace(first_report(job, round_number))
                policy = best_policy(job.evaluation)
                self.evaluations = ScriptEvaluations(policy, job.uid, self.reporter.update)
            self.reporter.attach(heartbeat.attach(os.environ))
            port = environment.read_report_port(os.environ)
            if port:
                report_server.serve(self.reporter, port)
        except errors.TrainerError as error:
            log.event("no-report", reason=str(error))
        # Also without a server: the termination message does not need one.
        script_end.report_with(write_termination_message)

    def _speed(self, step: int) -> dict[str, float]:
        now = time.monotonic()
        before, self._since = self._since, (step, now)
        if before is None or step <= before[0]:
            return {}
        return {"step_time_millis": 1000 * (now - before[1]) / (step - before[0])}


_scripts: list[ScriptReports] = []


def report(
    *,
    step: int | None = None,
    total_steps: int | None = None,
    epoch: int | None = None,
    examples: int | None = None,
    examples_per_second: float | None = None,
    metrics: Mapping[str, float] | None = None,
    phase: str | None = None,
) -> None:
    """Report the progress of this script; cheap enough for every step.

    Numbers may be tensors, variables or NumPy scalars. A value that is not one finite number is omitted.

    Args:
        step: finished steps since the start of training.
        total_steps: steps of the whole training.
        epoch: finished epochs.
        examples: examples seen by all replicas.
        examples_per_second: of all replicas.
        metrics: current values by name; they replace the metrics of the last report.
        phase: one of `tfdist.contract.Phase`; by default training.

    Raises:
        ValueError: `phase` is not a phase.
    """
    counts = {"step": step, "total_steps": total_steps, "epoch": epoch, "examples": examples}
    numbers: dict[str, float | None] = {name: count(value) for name, value in counts.items()}
    numbers |= {"examples_per_second": finite_number(examples_per_second)}
    fields: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    if metrics is not None:
        fields["metrics"] = finite_numbers(metrics)
    _script().report(phase=Phase(phase) if phase else Phase.TRAINING, **fields)


def clear(*fields: str) -> None:
    """Remove fields from the report: an earlier training of this script says nothing about the next one."""
    _script().report(**dict.fromkeys(fields))


def report_saving() -> None:
    """Report that the calls of `fit` of this process save the checkpoints of the job."""
    _script().report(saves_checkpoints=True)


def report_training_alone() -> None:
    """Report that `fit` trains a model of this worker alone, though the gang has several."""
    _script().report(trains_alone=True)


def report_untested_versions(found: str) -> None:
    """Report that `fit` was left to Keras, because the trainer was not tested with the versions in `found`."""
    _script().report(untested_versions=found)


def report_checkpoint(checkpoint: CheckpointReport | None) -> None:
    """Report the newest checkpoint, if there is one."""
    if checkpoint is not None and current_report().last_checkpoint != checkpoint:
        _script().report(last_checkpoint=checkpoint)


def report_times(
    *, slow_replica: SlowReplica | None, input_wait_millis: float | None, exchange_wait_millis: float | None
) -> None:
    """Report the waits of this replica in a step, and as the leader the slow replica."""
    _script().report(
        slow_replica=slow_replica, input_wait_millis=input_wait_millis, exchange_wait_millis=exchange_wait_millis
    )


def report_exports(exported: Sequence[ExportReport]) -> None:
    """Report the models that were exported."""
    _script().report(exports=list(exported))


def report_returned(value: str | None, problem: str | None) -> None:
    """Report what the function of the job has returned.

    Args:
        value: its JSON, at most `RETURNED_VALUE_BYTES` as a string of JSON; None with a problem.
        problem: why there is no JSON of it; None with a value.
    """
    _script().report(returned=FunctionReport(value=value, problem=problem))


def evaluations() -> ScriptEvaluations:
    """Return the evaluations of this script."""
    return _script().evaluations


def write_termination_message(reason: str, message: str) -> None:
    """Write the termination message: the report server ends with the process."""
    termination.write(termination.path_from(os.environ), termination.compose(reason, message, current_report()))


def _script() -> ScriptReports:
    if not _scripts:
        _scripts.append(ScriptReports())
    return _scripts[0]


def current_report() -> ProgressReport:
    """Return the last report of this script."""
    return _scripts[0].reporter.current if _scripts else _ALONE
