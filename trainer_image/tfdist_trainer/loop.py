"""Trains: chunks of steps, and between them what the gang agrees to do.

Keras' own `fit` does not run under `MultiWorkerMirroredStrategy` (docs/trainer.md). Every member runs this
loop in step with the others: the same chunks, the same collectives in the same order. The chief alone writes.
"""

import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfdist.contract import CheckpointReport, Phase
from tfdist_trainer import log
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, Position
from tfdist_trainer.context import Context, Supply, supply_of
from tfdist_trainer.data.files import Split
from tfdist_trainer.errors import StoppedOnNotice
from tfdist_trainer.pace import MAX_CHUNK, Decision, Pace, SaveSchedule, decide
from tfdist_trainer.report import now_text
from tfdist_trainer.state import State, agree_on_newest
from tfdist_trainer.step import Averaging, TrainStep, metric_sums

LOG_SECONDS = 5.0


def train(context: Context) -> None:
    """Train until `epochs` are done, from the newest checkpoint if there is one.

    Raises:
        StoppedOnNotice: SIGTERM arrived at a member, and the step agreed on has been saved.
    """
    examples = context.program.examples(Split.TRAIN, context.shard)
    supply = supply_of(context, examples, "training.config.data.train")
    # Not 0: a shuffle compares the pair of this seed and its own with (0, 0), and its own is a tensor.
    keras.utils.set_random_seed(context.config.seed + 1)
    with context.gang.strategy.scope():
        model = context.program.model()
        optimizer = context.program.optimizer(context.scale)
        optimizer.build(model.trainable_variables)
    Training(context, supply, State(model, optimizer)).run()


class Training:
    """One training in progress."""

    def __init__(self, context: Context, supply: Supply, state: State) -> None:
        self._context = context
        self._gang = context.gang
        self._supply = supply
        self._state = state
        self._reporter = context.reporter
        self._sums = metric_sums(context.program)
        self._step = TrainStep(context.gang, context.program, state.model, state.optimizer)
        self._averaging = Averaging(context.gang, state.model)
        self._pace = Pace()
        self._position = Position(step=0, metric_sums=tuple(self._sums.zeros()))
        self._saved: CheckpointReport | None = None
        self._writer: CheckpointWriter | None = None
        self._schedule: SaveSchedule | None = None
        self._iterator: object = None
        self._said = 0.0
        self._prepare_checkpoints()

    @property
    def _layout(self) -> tuple[int, ...]:
        return (self._supply.batch_size, self._gang.replicas, *self._supply.counts)

    @property
    def _total_steps(self) -> int:
        at = self._position
        return at.step - at.step_in_epoch + (self._context.config.epochs - at.epoch) * self._supply.steps

    def run(self) -> None:
        """Train, save and finish; see `train`."""
        self._reporter.update(
            step=self._position.step,
            total_steps=self._total_steps,
            epoch=self._position.epoch,
            examples=self._position.examples,
            phase=Phase.COMPILING,
        )
        log.event(
            "train-start",
            step=self._position.step,
            totalSteps=self._total_steps,
            members=self._gang.member.size,
            examples=sum(self._supply.counts),
            batchSize=self._supply.batch_size * self._gang.replicas,
        )
        self._context.notice.can_save = self._schedule is not None
        at, config = self._position, self._context.config
        self._iterator = self._supply.iterator(config.seed, range(at.epoch, config.epochs), at.step_in_epoch)
        while self._position.epoch < config.epochs:
            self._epoch()
        self._finish()

    def _epoch(self) -> None:
        """Train to the end of the epoch that is under way."""
        while self._position.step_in_epoch < self._supply.steps:
            decision = self._decide()
            self._act(decision)
            self._chunk(decision.steps)
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
        steps = min(self._pace.steps, self._supply.steps - at.step_in_epoch)
        due = False
        if self._schedule is not None:
            steps = min(steps, self._schedule.steps_left(at.step))
            already = self._saved is not None and self._saved.step == at.step
            ended = at.step_in_epoch == 0
            due = at.step > 0 and not already and self._schedule.is_due(at.step, epoch_ended=ended)
        return decide(self._gang, steps=steps, save=due, stop=self._context.notice.requested)

    def _act(self, decision: Decision) -> None:
        """Save, and stop, as decided."""
        can_save = self._schedule is not None
        if decision.save or (decision.stop and can_save):
            self._save()
        if decision.stop and can_save:
            raise StoppedOnNotice(f"SIGTERM arrived; step {self._position.step} is saved")

    def _chunk(self, steps: int) -> None:
        started = time.monotonic()
        sums = self._step.run(self._iterator, tf.constant(steps)).numpy()
        seconds = time.monotonic() - started
        self._pace.measured(steps, seconds)
        at = self._position
        examples = self._sums.examples(sums)
        epoch_sums = np.asarray(at.metric_sums) + sums
        self._position = at.model_copy(
            update={
                "step": at.step + steps,
                "step_in_epoch": at.step_in_epoch + steps,
                "examples": at.examples + examples,
                "metric_sums": tuple(float(value) for value in epoch_sums),
            }
        )
        metrics = dict(self._sums.results(epoch_sums))
        self._reporter.update(
            phase=Phase.TRAINING,
            step=self._position.step,
            examples=self._position.examples,
            metrics=metrics,
            examples_per_second=examples / seconds,
            step_time_millis=1000 * seconds / steps,
            step_at=now_text(),
        )
        self._say(metrics)

    def _say(self, metrics: dict[str, float]) -> None:
        if time.monotonic() - self._said < LOG_SECONDS:
            return
        self._said = time.monotonic()
        at, report = self._position, self._reporter.current
        log.event(
            "train",
            step=f"{at.step}/{self._total_steps}",
            epoch=f"{at.epoch + 1}/{self._context.config.epochs}",
            examplesPerSecond=report.examples_per_second,
            stepMillis=report.step_time_millis,
            **metrics,
        )

    def _prepare_checkpoints(self) -> None:
        """Claim the directory, and go to the newest checkpoint in it."""
        settings = self._context.checkpoint
        if settings is None:
            return
        directory = Path(settings.directory)
        self._schedule = SaveSchedule(settings)
        reader = CheckpointReader(directory)
        if self._gang.member.is_chief:
            reader = self._writer = CheckpointWriter(directory, keep=settings.keep, writer=self._context.writer)
            self._writer.claim()
        if settings.restore != "None":
            self._restore(reader)
        if self._writer is not None and self._position.epoch < self._context.config.epochs:
            self._writer.begin()

    def _restore(self, reader: CheckpointReader) -> None:
        record = agree_on_newest(self._gang, reader)
        if record is None:
            return
        path = reader.path_of(record.position.step)
        self._state.restore(path)
        at = record.position
        if at.step_in_epoch and at.layout != self._layout:
            log.event("epoch-restarted", epoch=at.epoch + 1, reason="the gang or its data has changed since")
            at = at.model_copy(update={"step_in_epoch": 0, "metric_sums": tuple(self._sums.zeros())})
        self._position = at
        self._saved = CheckpointReport(step=at.step, path=str(path), time=record.time)
        self._reporter.update(last_checkpoint=self._saved)
        log.event("restored", step=at.step, path=path, writer=record.writer)

    def _save(self) -> None:
        """Write a checkpoint at the present position; a collective, of which the chief writes."""
        phase = self._reporter.current.phase
        self._reporter.update(phase=Phase.CHECKPOINTING)
        self._averaging.run(1.0 if self._supply.examples.count else 0.0)
        at = self._position.model_copy(update={"layout": self._layout})
        if self._writer is not None:
            self._saved = self._state.save(self._writer, at)
            log.event("checkpoint", step=at.step, path=self._saved.path)
        else:
            path = CheckpointReader(Path(self._settings_directory)).path_of(at.step)
            self._saved = CheckpointReport(step=at.step, path=str(path), time=now_text())
        if self._schedule is not None:
            self._schedule.saved()
        self._reporter.update(phase=phase, last_checkpoint=self._saved)

    @property
    def _settings_directory(self) -> str:
        return self._context.checkpoint.directory if self._context.checkpoint else ""

    def _finish(self) -> None:
        """Save the last step and name it in `final.json`."""
        if self._schedule is not None:
            if self._saved is None or self._saved.step != self._position.step:
                self._save()
            if self._writer is not None and self._saved is not None:
                self._writer.finish(self._saved, self._total_steps)
        # Nobody leaves before everybody has come so far: a member that ends breaks the others' connections.
        self._gang.share([MAX_CHUNK])
        self._reporter.update(phase=Phase.FINISHED)
