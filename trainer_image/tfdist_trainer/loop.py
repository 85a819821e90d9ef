"""Trains: chunks of steps, and between them what the gang agrees to do.

Keras' own `fit` does not run under `MultiWorkerMirroredStrategy` (docs/trainer.md). Every member runs this
loop in step with the others: the same chunks, the same collectives in the same order. The chief alone writes.
"""

import time
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tfdist.contract import Phase
from tfdist_trainer import log
from tfdist_trainer.checkpoint import Position
from tfdist_trainer.context import Context, Supply, supply_of
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import ConfigurationError, NotFiniteError, StoppedOnNotice, cause_of, one_line
from tfdist_trainer.pace import MAX_CHUNK, Decision, Pace, decide
from tfdist_trainer.programs.config import last_epoch
from tfdist_trainer.reporter import now_text
from tfdist_trainer.resume import taken_up
from tfdist_trainer.saving import Saver
from tfdist_trainer.state import State, new_state
from tfdist_trainer.step import Averaging, FiniteCheck, Outcome, StepOptions, TrainStep, metric_sums
from tfdist_trainer.summaries import Summaries
from tfdist_trainer.xla_choice import XlaChoice

LOG_SECONDS = 5.0

_WHAT_TO_DO = (
    "lower the learning rate, clip gradients, look for values that are not numbers in the data, or set "
    "training.config.onNonFinite to Skip"
)


class Steps(Protocol):
    """What computes chunks of steps."""

    def run(self, iterator: Any, steps: int) -> Outcome:
        """Take `steps` steps of the batches of `iterator`."""


def train(context: Context) -> None:
    """Train until `epochs` or `steps` are done, from a checkpoint if there is one.

    Raises:
        StoppedOnNotice: SIGTERM arrived at a member, and the step agreed on has been saved.
        NotFiniteError: a loss or gradient is not finite, and the program does not skip such steps.
    """
    examples = context.program.examples(Split.TRAIN, context.shard)
    supply = supply_of(context, examples, "training.config.data.train")
    training = Training(context, supply, new_state(context))
    if context.gate is not None:
        training.rehearse()
        context.gate.wait()
    training.run()


class Training:
    """One training in progress."""

    def __init__(self, context: Context, supply: Supply, state: State) -> None:
        self._context = context
        self._config = context.config
        self._gang = context.gang
        self._supply = supply
        self._state = state
        self._reporter = context.reporter
        self._sums = metric_sums(context.program)
        self._steps: dict[bool, Steps] = {}
        self._averaging = Averaging(context.gang, state.model)
        self._finite = FiniteCheck(context.gang, state.variables)
        self._pace = Pace()
        self._xla = XlaChoice("Off" if context.settings.deterministic else context.settings.xla)
        self._saver = Saver(context, state)
        self._iterator: object = None
        self._enough = False
        self._said = 0.0
        self._position = Position(step=0, metric_sums=tuple(self._sums.zeros()))
        self._summaries = Summaries(context)

    @property
    def _layout(self) -> tuple[int, ...]:
        return (self._supply.batch_size, self._gang.replicas, *self._supply.counts)

    @property
    def _total_steps(self) -> int:
        if self._enough:
            return self._position.step
        if self._config.steps is not None:
            return self._config.steps
        at = self._position
        return at.step - at.step_in_epoch + (self._config.epochs - at.epoch) * self._supply.steps

    @property
    def _is_done(self) -> bool:
        return self._position.step >= self._total_steps

    def rehearse(self) -> None:
        """Take a step of the first batch, so that nothing of it is left to be made ready; a collective.

        What it changes is restored from a checkpoint before `run` takes the first that counts.
        """
        self._gang.from_chief(0.0)
        steps = self._steps_of(compiled=self._xla.propose(0))
        steps.run(self._supply.iterator(self._context.seed, range(1)), decide(self._gang, Decision(steps=1)).steps)

    def run(self) -> None:
        """Train, save and finish; see `train`."""
        at = self._position = self._first_position()
        total = self._total_steps
        self._reporter.update(
            step=at.step, total_steps=total, epoch=at.epoch, examples=at.examples, phase=Phase.COMPILING
        )
        log.event(
            "train-start",
            step=at.step,
            totalSteps=total,
            members=self._gang.member.size,
            examples=sum(self._supply.counts),
            batchSize=self._supply.batch_size * self._gang.replicas,
        )
        self._context.notice.can_save = self._saver.can_save
        if not self._is_done:
            self._saver.begin()
        self._start_iterator()
        while not self._is_done:
            self._epoch()
        self._finish()

    def _start_iterator(self) -> None:
        """Take up the stream of batches at the present position."""
        at = self._position
        epochs = range(at.epoch, last_epoch(self._config))
        self._iterator = self._supply.iterator(self._context.seed, epochs, at.step_in_epoch)

    def _epoch(self) -> None:
        """Train to the end of the epoch that is under way, or of training."""
        while self._position.step_in_epoch < self._supply.steps and not self._is_done:
            decision = self._decide()
            self._act(decision)
            if not self._enough:
                self._chunk(decision)
        if self._position.step_in_epoch < self._supply.steps:
            return
        results = self._sums.results(np.asarray(self._position.metric_sums))
        log.event("epoch", epoch=self._position.epoch + 1, step=self._position.step, **results)
        self._position = self._position.model_copy(
            update={
                "epoch": self._position.epoch + 1,
                "step_in_epoch": 0,
                "metric_sums": tuple(self._sums.zeros()),
            }
        )
        self._reporter.update(epoch=self._position.epoch)

    def _decide(self) -> Decision:
        at = self._position
        left = self._total_steps - at.step
        compiled = self._xla.propose(left)
        steps = min(self._pace.steps, left, self._supply.steps - at.step_in_epoch, self._saver.steps_left(at.step))
        steps = self._summaries.limit(at.step, steps)
        if compiled and self._xla.compiles_next:
            steps = 1
        save, enough = self._saver.is_due(at), bool(self._saver.told_to_stop(at.step))
        return decide(self._gang, Decision(steps, save, self._context.notice.requested, compiled, enough))

    def _act(self, decision: Decision) -> None:
        """Save, and stop or end, as decided."""
        if decision.save or (decision.stop and self._saver.can_save):
            self._save()
        if decision.stop and self._saver.can_save:
            raise StoppedOnNotice(f"SIGTERM arrived; step {self._position.step} is saved")
        if decision.enough:
            self._enough, step = True, self._position.step
            self._reporter.update(total_steps=step)
            log.event("stopped-early", step=step, reason=self._saver.told_to_stop(step) or None)

    def _chunk(self, decision: Decision) -> None:
        """Take the steps decided on, and count and report them."""
        with self._summaries.profiled(self._position.step, decision.steps):
            started = time.monotonic()
            outcome = self._compute(decision)
            seconds = time.monotonic() - started
        if outcome is None:
            return
        taken = int(outcome.done)
        if not decision.compiled or not self._xla.compiles_next:
            self._pace.measured(taken, seconds)
        self._xla.measured(compiled=decision.compiled, step_seconds=seconds / taken)
        self._count(outcome, taken)
        self._tell(outcome, taken, seconds)
        if outcome.not_finite:
            self._not_finite(int(outcome.not_finite))

    def _compute(self, decision: Decision) -> Outcome | None:
        """Return the outcome of the steps; None when XLA cannot compile them, and nothing has been done."""
        compiled = decision.compiled
        try:
            return self._steps_of(compiled=compiled).run(self._iterator, decision.steps)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError) as error:
            if not compiled or not self._xla.compiles_next:
                raise
            reason = one_line(cause_of(error.message))[:300]
            if self._context.settings.xla == "On":
                raise ConfigurationError(
                    f"runtime.xla: XLA cannot compile the steps of this program; use Auto or Off ({reason})"
                ) from None
            self._xla.failed(reason)
            # The step has taken a batch and not used it.
            self._start_iterator()
            return None

    def _steps_of(self, *, compiled: bool) -> Steps:
        if compiled not in self._steps:
            skip, timed = self._config.on_non_finite == "Skip", not self._context.settings.deterministic
            self._steps[compiled] = self._new_steps(StepOptions(skip=skip, compiled=compiled, timed=timed))
        return self._steps[compiled]

    def _new_steps(self, options: StepOptions) -> Steps:
        return TrainStep(self._gang, self._context.program, self._state.model, self._state.optimizer, options)

    def _count(self, outcome: Outcome, taken: int) -> None:
        """Move the position on by the steps taken."""
        at = self._position
        epoch_sums = np.asarray(at.metric_sums) + outcome.sums
        self._position = at.model_copy(
            update={
                "step": at.step + taken,
                "step_in_epoch": at.step_in_epoch + taken,
                "examples": at.examples + self._sums.examples(outcome.sums),
                "metric_sums": tuple(float(value) for value in epoch_sums),
            }
        )

    def _tell(self, outcome: Outcome, taken: int, seconds: float) -> None:
        """Report, summarize and now and then log how it stands."""
        at = self._position
        metrics = dict(self._sums.results(np.asarray(at.metric_sums)))
        self._reporter.update(
            phase=Phase.TRAINING,
            step=at.step,
            examples=at.examples,
            metrics=metrics,
            examples_per_second=self._sums.examples(outcome.sums) / seconds,
            step_time_millis=1000 * seconds / taken,
            input_wait_millis=1000 * float(outcome.input_wait) / taken,
            step_at=now_text(),
        )
        self._summaries.write(
            self._reporter.current, self._sums.results(outcome.sums), outcome, self._state.optimizer.learning_rate
        )
        if time.monotonic() - self._said < LOG_SECONDS:
            return
        self._said = time.monotonic()
        log.event(
            "train",
            step=f"{at.step}/{self._total_steps}",
            epoch=at.epoch + 1,
            examplesPerSecond=self._reporter.current.examples_per_second,
            stepMillis=self._reporter.current.step_time_millis,
            **metrics,
        )

    def _not_finite(self, count: int) -> None:
        step = self._position.step
        if self._config.on_non_finite == "Skip":
            log.event("steps-skipped", count=count, until=step, reason="loss or gradient not finite")
            return
        raise NotFiniteError(
            f"step {step}: the loss or its gradient is not finite, and nothing of this step was saved; {_WHAT_TO_DO}"
        )

    def _first_position(self) -> Position:
        """Return where training begins, after restoring what it begins from."""
        at = self._saver.restore()
        self._state.align(self._gang, restored=at is not None)
        return self._position if at is None else taken_up(at, self._layout, self._sums)

    def _save(self) -> None:
        """Write a checkpoint at the present position; a collective, of which the chief writes."""
        self._averaging.run(1.0 if self._supply.examples.count else 0.0)
        if not self._finite.run():
            raise NotFiniteError(
                f"step {self._position.step}: a variable is not finite since the last checkpoint, and nothing of it "
                f"was saved; {_WHAT_TO_DO}"
            )
        self._saver.save(self._position.model_copy(update={"layout": self._layout, "metrics": self._sums.sizes}))

    def _finish(self) -> None:
        """Save the last step and name it in `final.json`."""
        if self._saver.is_missing(self._position):
            self._save()
        self._saver.finish(self._total_steps)
        self._summaries.close()
        # Nobody leaves before everybody has come so far: a member that ends breaks the others' connections.
        self._gang.share([MAX_CHUNK])
        self._reporter.update(phase=Phase.FINISHED)
