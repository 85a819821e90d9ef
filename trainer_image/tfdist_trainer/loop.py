"""The training loop: executions of several steps, and decisions of the gang between them.

Programs train here and scripts in Keras' `fit` (docs/adr/0047). Every member runs this loop in lockstep with the
others: the same executions, the same collectives in the same order. Only the chief writes.
"""

import contextlib
import time
from functools import partial
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist.api.export import ExportedModel
from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport, SlowReplica
from tfdist_trainer import log
from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.context import Context
from tfdist_trainer.errors import ConfigurationError, Preempted, cause_of, one_line
from tfdist_trainer.gang_times import GangTimes
from tfdist_trainer.input_pipeline import InputPipeline
from tfdist_trainer.loop_decision import LoopDecision, agree
from tfdist_trainer.non_finite import check_steps, check_weight, variable_error
from tfdist_trainer.program_model import export_checkpoint, new_state
from tfdist_trainer.programs.config import last_epoch
from tfdist_trainer.saving import Saver
from tfdist_trainer.state import State
from tfdist_trainer.step import StepOptions, StepStats, TrainStep, metric_sums
from tfdist_trainer.step_variables import BatchNormSync, FiniteCheck
from tfdist_trainer.steps_per_execution import StepsPerExecutionTuner
from tfdist_trainer.summaries import Summaries, folder_of
from tfdist_trainer.timestamps import now_text
from tfdist_trainer.training_input import open_training_input, resume_cursor
from tfdist_trainer.xla_autotuner import XlaAutotuner

LOG_SECONDS: Final = 5.0
"""Shortest time between two lines."""


class TrainingLog:
    """Logs the progress in reports."""

    def __init__(self) -> None:
        self._logged_at = 0.0

    def write(self, report: ProgressReport) -> None:
        """Log `report`, of a training that has a step, unless the last line is recent."""
        if time.monotonic() - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = time.monotonic()
        log.event(
            "train",
            step=f"{report.step}/{report.total_steps}",
            epoch=(report.epoch or 0) + 1,
            examplesPerSecond=report.examples_per_second,
            stepMillis=report.step_time_millis,
            **report.metrics,
        )


def train(context: Context) -> None:
    """Train until `epochs` or `steps` are done, from a checkpoint if there is one.

    Raises:
        Preempted: SIGTERM arrived at a member, and the gang has saved the agreed step.
        NotFiniteError: a loss or gradient is not finite, and the program does not skip such steps.
    """
    pipeline = open_training_input(context)
    training = TrainingLoop(context, pipeline, new_state(context))
    if context.start_barrier is not None:
        # A standby process traces and compiles before its round begins (ADR 17).
        training.warm_up_step()
        context.start_barrier.wait()
    training.run()


class TrainingLoop:
    """One training run."""

    def __init__(self, context: Context, pipeline: InputPipeline, state: State) -> None:
        self._context = context
        self._config = context.config
        self._gang = context.gang
        self._input = pipeline
        self._state = state
        self._reporter = context.reporter
        self._sums = metric_sums(context.program)
        self._steps: dict[bool, TrainStep] = {}
        self._batch_norm_sync = BatchNormSync(context.gang, state.model)
        self._finite = FiniteCheck(context.gang, state.variables)
        self._tuner = StepsPerExecutionTuner()
        self._times = GangTimes(context.member.rank, context.member.size)
        self._xla = XlaAutotuner("Off" if context.settings.deterministic else context.settings.xla)
        self._saver = Saver(context.checkpoint, context.gang, state, context.reporter)
        self._skips = context.config.non_finite_policy == "SkipStep"
        self._iterator: object = None
        self._stopped_early = False
        self._log = TrainingLog()
        self._cursor = DataCursor(step=0, metric_sums=tuple(self._sums.zeros()))
        folder = folder_of(context.member.job.log_directory, context.checkpoint)
        self._summaries = Summaries(context.member, folder, context.config.profile)

    @property
    def _total_steps(self) -> int:
        if self._stopped_early:
            return self._cursor.step
        if self._config.steps is not None:
            return self._config.steps
        return self._input.total_steps(self._cursor, self._config.epochs)

    @property
    def _progress(self) -> dict[str, Any]:
        """The progress for the report; `percent` is None if the numbers of steps decide it."""
        cursor, by_steps = self._cursor, self._stopped_early or self._config.steps is not None
        percent = None if by_steps else self._input.percent(cursor, self._config.epochs)
        counts = {"step": cursor.step, "epoch": cursor.epoch, "examples": cursor.examples}
        return counts | {"total_steps": self._total_steps, "percent": percent}

    @property
    def _is_done(self) -> bool:
        return self._cursor.step >= self._total_steps

    def warm_up_step(self) -> None:
        """Run one step on the first batch, so that tracing and compilation are done; a collective.

        `run` restores a checkpoint afterwards, which undoes the changes of this step.
        """
        self._gang.broadcast_from_chief(0.0)
        steps = self._steps_of(compiled=self._xla.propose(0))
        steps.run(self._input.iterator(self._context.seed, range(1)), agree(self._gang, LoopDecision(steps=1)).steps)

    def run(self) -> None:
        """Train, save and finish; see `train`."""
        cursor = self._cursor = self._first_cursor()
        self._reporter.update(phase=Phase.COMPILING, **self._progress)
        log.event(
            "train-start",
            step=cursor.step,
            totalSteps=self._total_steps,
            members=self._gang.member.size,
            examples=sum(self._input.counts),
            batchSize=self._input.batch_size * self._gang.replicas,
        )
        # From here on the loop stops for SIGTERM itself, at a step that all members agree on.
        self._context.preemption.can_save = self._saver.can_save
        # A job that had finished stays finished: `final.json` is kept.
        if not self._is_done:
            self._saver.begin()
        self._start_iterator()
        while not self._is_done:
            self._epoch()
        self._finish()

    def _start_iterator(self) -> None:
        """Start the stream of batches at the current cursor."""
        cursor = self._cursor
        epochs = range(cursor.epoch, last_epoch(self._config))
        self._iterator = self._input.iterator(self._context.seed, epochs, cursor)

    def _epoch(self) -> None:
        """Train to the end of the current epoch, or of training."""
        while self._input.steps_left(self._cursor) > 0 and not self._is_done:
            # Before each execution all members agree: one that saves, stops or ends alone would hang the others (ADR
            # 4).
            decision = self._decide()
            self._save_or_stop(decision)
            if not self._stopped_early:
                self._execute(decision)
        self._end_epoch()

    def _end_epoch(self) -> None:
        """Log the metrics of the current epoch and start the next one, if its steps are done."""
        if self._input.steps_left(self._cursor) > 0:
            return
        check_weight(self._cursor.metric_sums, self._cursor.epoch + 1, skip=self._skips)
        results = self._sums.results(np.asarray(self._cursor.metric_sums))
        log.event("epoch", epoch=self._cursor.epoch + 1, step=self._cursor.step, **results)
        start = {"epoch": self._cursor.epoch + 1, "step_in_epoch": 0, "metric_sums": tuple(self._sums.zeros())}
        self._cursor = self._cursor.model_copy(update=start)
        self._reporter.update(**self._progress)

    def _decide(self) -> LoopDecision:
        cursor = self._cursor
        remaining = self._total_steps - cursor.step
        compiled = self._xla.propose(remaining)
        steps = min(self._tuner.steps, remaining, self._input.steps_left(cursor), self._saver.steps_left(cursor.step))
        # A profile begins and ends between two executions.
        steps = self._summaries.limit(cursor.step, steps)
        # The execution that compiles has one step, and is not measured.
        if compiled and self._xla.compiles_next:
            steps = 1
        save, stop_early = self._saver.is_due(cursor), bool(self._saver.early_stop_reason(cursor.step))
        stop = self._context.preemption.is_requested
        return agree(self._gang, LoopDecision(steps, save, stop, compiled, stop_early), self._times)

    def _save_or_stop(self, decision: LoopDecision) -> None:
        """Save if decided; then stop for preemption, or end early."""
        # Saved before the stop: the process ends next.
        if decision.save or (decision.stop and self._saver.can_save):
            self._save()
        if decision.stop and self._saver.can_save:
            with contextlib.suppress(tf.errors.OpError):  # an error here means that all members have reached it
                self._gang.wait_for_all()
            raise Preempted(f"SIGTERM arrived; step {self._cursor.step} is saved")
        if decision.stop_early:
            self._stopped_early, step = True, self._cursor.step
            self._reporter.update(**self._progress)
            log.event("stopped-early", step=step, reason=self._saver.early_stop_reason(step) or None)

    def _execute(self, decision: LoopDecision) -> None:
        """Run the steps decided on, then count and report them."""
        if decision.compiled and self._xla.compiles_next:
            self._reporter.update(phase=Phase.COMPILING)  # which takes longer than steps do
        with self._summaries.profile_steps(self._cursor.step, decision.steps):
            started_at = time.monotonic()
            stats = self._compute(decision)
            seconds = time.monotonic() - started_at
        # XLA could not compile these steps; the next decision takes plain ones.
        if stats is None:
            return
        steps = int(stats.done)
        # The execution that compiles says nothing about the duration of a step.
        if not decision.compiled or not self._xla.compiles_next:
            self._tuner.observe(steps, seconds)
            self._times.observe(steps, seconds, input_wait=stats.input_wait, exchange_wait=stats.exchange_wait)
        self._xla.observe(compiled=decision.compiled, step_seconds=seconds / steps)
        self._record(stats, seconds)

    def _record(self, stats: StepStats, seconds: float) -> None:
        """Count and report the steps of `stats`, which took `seconds`; raise or log if one was not finite."""
        steps = int(stats.done)
        # The cursor first: report and error name the step that has just ended.
        self._advance(stats, steps)
        self._report(stats, steps, seconds)
        check_steps(int(stats.not_finite), self._cursor.step, skip=self._skips)

    def _compute(self, decision: LoopDecision) -> StepStats | None:
        """Return the statistics of the steps; None if XLA cannot compile them, and nothing has changed."""
        compiled = decision.compiled
        try:
            return self._steps_of(compiled=compiled).run(self._iterator, decision.steps)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError) as error:
            if not compiled or not self._xla.compiles_next or "IteratorGetNext" in error.message:
                raise  # an error of IteratorGetNext is one of the data
            reason = one_line(cause_of(error.message))[:300]
            if self._context.settings.xla == "On":
                raise ConfigurationError(
                    f"runtime.xla: XLA cannot compile the steps of this program; use Auto or Off ({reason})"
                ) from None
            self._xla.record_failure(reason)
            # The failed step has consumed a batch without using it.
            self._start_iterator()
            return None

    def _steps_of(self, *, compiled: bool) -> TrainStep:
        if compiled not in self._steps:
            context, state = self._context, self._state
            timed = not context.settings.deterministic
            options = StepOptions(skip=self._skips, compiled=compiled, timed=timed)
            self._steps[compiled] = TrainStep(self._gang, context.program, state.model, state.optimizer, options)
        return self._steps[compiled]

    def _advance(self, stats: StepStats, steps: int) -> None:
        """Advance the cursor by the steps taken."""
        cursor = self._cursor
        epoch_sums = np.asarray(cursor.metric_sums) + stats.sums
        self._cursor = cursor.model_copy(
            update={
                "step": cursor.step + steps,
                "step_in_epoch": cursor.step_in_epoch + steps,
                "examples": cursor.examples + self._sums.examples(stats.sums),
                "metric_sums": tuple(float(value) for value in epoch_sums),
            }
        )

    def _report(self, stats: StepStats, steps: int, seconds: float) -> None:
        """Report and summarize the progress, and log it every few seconds."""
        metrics = dict(self._sums.results(np.asarray(self._cursor.metric_sums)))
        self._reporter.update(
            phase=Phase.TRAINING,
            **self._progress,
            metrics=metrics,
            examples_per_second=self._sums.examples(stats.sums) / seconds,
            step_time_millis=1000 * seconds / steps,
            input_wait_millis=1000 * float(stats.input_wait) / steps,
            exchange_wait_millis=1000 * float(stats.exchange_wait) / steps if stats.exchange_wait else None,
            slow_replica=self._slow_replica(),
            step_at=now_text(),
        )
        recent, learning_rate = self._sums.results(stats.sums), self._state.optimizer.learning_rate
        self._summaries.write(self._reporter.current, recent, stats.gradient_norm, learning_rate)
        self._log.write(self._reporter.current)

    def _slow_replica(self) -> SlowReplica | None:
        """Return the replica for which the others wait; only at the chief."""
        return self._times.slow_replica(self._context.member)

    def _first_cursor(self) -> DataCursor:
        """Restore the initial checkpoint, if any, and return the cursor at which training starts."""
        # Before the broadcast: most starts have a checkpoint, and need no initial value of the chief (ADR 16).
        cursor = self._saver.restore(required=self._context.start_barrier is not None)
        self._state.broadcast_initial_values(self._gang, restored=cursor is not None)
        if cursor is None:
            return self._cursor
        signature, by_index = self._input.sharding_signature, self._input.examples.by_index
        return resume_cursor(cursor, signature, self._sums, by_index=by_index)

    def _save(self) -> None:
        """Write a checkpoint at the current cursor; a collective, in which only the chief writes."""
        # All members take part, and then only the chief writes: its statistics must be averaged over all.
        self._batch_norm_sync.run(1.0 if self._input.examples.count else 0.0)
        # A checkpoint that is not finite would be restored again and again.
        if not self._finite.run():
            raise variable_error(self._cursor.step)
        self._saver.save(
            self._cursor.model_copy(
                update={"sharding_signature": self._input.sharding_signature, "metrics": self._sums.sizes}
            )
        )

    def _finish(self) -> None:
        """Save the last step, export its model, and name it in `final.json`."""
        with self._gang.strategy.scope():
            is_changed = self._state.finalize()
        # The model is exported from the checkpoint, so that must have the final weights.
        if is_changed or self._saver.is_missing(self._cursor):
            self._save()
        self._saver.finish(self._total_steps, partial(export_checkpoint, self._context, ExportedModel.FINAL))
        self._summaries.close()
        # The chief exports meanwhile: a member that exits breaks its connections.
        self._gang.wait_for_all()
        self._reporter.update(phase=Phase.FINISHED)
