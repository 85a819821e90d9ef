"""Gives a script of a job what a program has: its calls of `fit` save checkpoints, resume, and stop for SIGTERM.

A script is run again from its beginning after a failure. Its calls of `fit` are counted: those that had ended are
skipped, with their history restored, and the one that was interrupted continues within its epoch.
"""

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import tensorflow as tf

from tfdist.api.export import ExportedModel
from tfdist.contract import CheckpointSettings, ExitCode, ExportSettings
from tfdist_trainer import environment, errors, log, script, script_end
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import FitFailedError, Preempted, TrainerError
from tfdist_trainer.evaluation_store import StoredEvaluation
from tfdist_trainer.export import export
from tfdist_trainer.fence import writer_of
from tfdist_trainer.keras import training_state
from tfdist_trainer.keras.decisions import callback_list
from tfdist_trainer.keras.resumable_fit import ResumableFit, Resumed
from tfdist_trainer.keras.script_checkpoints import ScriptCheckpoints, WriteObserver
from tfdist_trainer.keras.step_function import StepFunction
from tfdist_trainer.keras.stop_request import StoppedFit, StopRequest
from tfdist_trainer.stored_checkpoint import stored_checkpoint
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream import keras_epochs, keras_fit
from tfdist_trainer.upstream.strategy_worker import worker_of


@functools.cache
def install() -> None:
    """Replace `fit`, once in each process whose `fit` the trainer runs; without `checkpoint` it only stops."""
    try:
        job, _ = environment.read_replica(os.environ)
        # Nothing to save: SIGTERM still stops all workers at one step.
        if job.checkpoint is None:
            keras_fit.wrap(keras_fit.FIT, StoppedFit(job.saving_seconds).wrap_fit)
            return
        member = environment.read_member(os.environ)
    except TrainerError as error:
        log.event("no-checkpoint", reason=error)
        return
    # Parameter servers have no `fit` that all members run.
    trains = member.job.role in environment.GANG_ROLES and not member.cluster
    if not trains:
        return
    training = ScriptTraining(member, job.checkpoint)
    keras_fit.wrap(keras_fit.FIT, training.wrap_fit)
    keras_fit.wrap(keras_epochs.EPOCH_ITERATOR, training.wrap_epoch_iterator)


class ScriptTraining:
    """The calls of `fit` of this process, in order."""

    def __init__(self, member: GangMember, settings: CheckpointSettings) -> None:
        self.step = 0
        self.models: list[Any] = []
        self.histories: list[dict[str, Any]] = []
        self.is_chief = member.is_chief
        self._member = member
        self._checkpoints = ScriptCheckpoints(settings, member)
        self._request = StopRequest(script.write_termination_message, patience_seconds=member.job.saving_seconds)
        self._has_begun = False
        self._wait_for_all: Callable[[], object] = lambda: None
        """A collective."""
        self._resumed: Resumed | None = None
        self._fit: ResumableFit | None = None
        self._last: ResumableFit | None = None
        """The last call of `fit`, if it has ended."""
        self._failed = ""
        self._idle = threading.Event()
        """Set while no call of `fit` runs: a thread may still run one when the script has ended."""
        self._idle.set()
        self._saved_at: tuple[int, int, bool] | None = None
        self._evaluated_before: StoredEvaluation | None = None
        self._evaluated_now: StoredEvaluation | None = None
        """The result of the epoch that has just ended."""

    @property
    def running_fit(self) -> ResumableFit | None:
        """The call of `fit` that runs."""
        return self._fit

    @property
    def stop_requested(self) -> bool:
        """Whether SIGTERM has arrived on this worker."""
        return self._request.is_requested

    def wrap_fit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `fit` with checkpoints."""
        signature = inspect.signature(original)

        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            # Calls are counted in the order of the script: an inner one would shift the numbers.
            if self._fit is not None or not self._trains_with_gang(model):  # a `fit` within a callback is a part of it
                return original(model, *args, **kwargs)
            with _exit_on_error():
                return self._run(original, model, signature.bind(model, *args, **kwargs).arguments)

        return fit

    def wrap_epoch_iterator(self, original: Any) -> Callable[..., Any]:
        """Return Keras' iterator of epochs, of which the first one of each `fit` can begin within an epoch."""

        def create(*args: Any, **kwargs: Any) -> Any:
            if self._fit is None or self._fit.iterator is not None:
                return original(*args, **kwargs)
            uses_engine = worker_of(kwargs.get("distribute_strategy")) is not None
            # The engine's iterator can begin within an epoch by itself.
            make = original if uses_engine else functools.partial(keras_epochs.resumable_iterator, original)
            self._fit.iterator = make(*args, **kwargs)
            return self._fit.iterator

        return create

    def between_steps(self, fit: ResumableFit, *, stop: bool, epoch_ended: bool) -> None:
        """Save if it is due, or if all workers stop; then stop."""
        # First: an error of the write in the background is raised here.
        self._report()
        newest = script.evaluations().newest
        self._evaluated_now = newest if epoch_ended and newest is not self._evaluated_before else None
        self._evaluated_before = newest
        if stop:
            self._save(fit)
            # The process ends after this: what is saved must be complete.
            self._checkpoints.wait()
            self._stop()
        elif self._checkpoints.is_due(self.step, epoch_ended=epoch_ended) or (
            self._evaluated_now is not None and script.evaluations().newest_is_best
        ):
            self._save(fit)

    def _run(self, original: Callable[..., Any], model: Any, arguments: dict[str, Any]) -> Any:
        self._begin(model)
        if model not in self.models:
            self.models.append(model)
        self._fit = ResumableFit(self, len(self.histories), model, self._resumed)
        self._observe(model)
        arguments["callbacks"] = self._fit.enclose(callback_list(arguments.get("callbacks")))
        # From here on SIGTERM waits for the next call of the train function, and does not end the process at once.
        self._request.can_save = True
        self._idle.clear()
        try:
            result = original(**arguments)
            self._last, self._fit = self._fit, None
            self.histories.append(self._last.history)
            if self._checkpoints.is_due(self.step, epoch_ended=True):
                self._save(self._last)
        except BaseException as error:
            # A failed call leaves nothing that could be final (ADR 55).
            self._last, self._failed = None, errors.classify(error).message
            raise
        finally:
            # Between calls nothing saves, so SIGTERM ends the process at once.
            self._fit, self._request.can_save = None, False
            self._idle.set()
        return result

    def _begin(self, model: Any) -> None:
        """Restore, once in this process. A collective."""
        if self._has_begun:
            return
        self._has_begun = True
        gang = ReplicaGroup(self._member, model.distribute_strategy)
        self._wait_for_all = gang.wait_for_all
        script.report_saving()
        restored = self._checkpoints.restore(gang)
        if restored is not None:
            record, path, snapshot = restored
            self._resumed = Resumed(record.cursor, path, snapshot)
        if self.is_chief:
            step = self._resumed.cursor.step if self._resumed is not None else 0
            script.evaluations().store_in(self._checkpoints.evaluations, step)
        self._report()
        # Now: TensorFlow has installed its own handler with the strategy.
        self._request.install()
        # Final only if the script ends with 0, which a handler of `atexit` does not know (ADR 55).
        script_end.when_succeeded(self._finish)

    def _observe(self, model: Any) -> None:
        model.make_train_function()
        # The engine's function exchanges the wish to stop with the metrics; on one worker nobody has to agree.
        if isinstance(model.train_function, StepFunction):
            model.train_function.observer = self._fit
        elif not isinstance(model.train_function, _ObservedTrainFunction):
            model.train_function = _ObservedTrainFunction(model, model.train_function, self)

    def _trains_with_gang(self, model: Any) -> bool:
        """Return whether all members of the gang train `model` together."""
        if self._member.size == 1 or worker_of(model.distribute_strategy) is not None:
            return True
        log.event("no-checkpoint", reason="fit runs without MultiWorkerMirroredStrategy in a gang of several workers")
        return False

    def _save(self, fit: ResumableFit) -> None:
        cursor = fit.cursor
        key = (cursor.step, fit.number, fit.has_ended)
        if key == self._saved_at or not self.is_chief:
            return
        self._saved_at = key
        snapshot, seconds = fit.snapshot()
        self._checkpoints.save(cursor, snapshot, seconds, self._observer(cursor.step))

    def _observer(self, step: int) -> WriteObserver:
        """Return the observer of the checkpoint at `step`, which may have the model of the last evaluation."""
        evaluations = script.evaluations()
        result = evaluations.newest
        if result is None or (result is not self._evaluated_now and not (result.checkpoint and result.step == step)):
            return WriteObserver()
        return WriteObserver(functools.partial(evaluations.record, result), functools.partial(evaluations.keep, result))

    def _report(self) -> None:
        script.report_checkpoint(self._checkpoints.newest())
        script.evaluations().report()

    def _stop(self) -> NoReturn:
        """End this process: the checkpoint of the step that all workers have agreed on is written."""
        log.event("preempted", step=self.step)
        self._report()
        # A worker that exits breaks connections: the chief may still wait in the collective that decided.
        with contextlib.suppress(tf.errors.OpError):  # an error here means that all workers have reached it
            self._wait_for_all()
        saved = f", and step {self.step} is saved" if self.is_chief else ""
        script_end.leave(Preempted.reason, f"SIGTERM arrived{saved}", ExitCode.PREEMPTED)

    def _finish(self) -> None:
        """Save what the script has ended with, export it, and name it as final."""
        # A thread of the script may still train.
        self._idle.wait()
        if self._last is None:
            raise FitFailedError(f"nothing is exported or final, because the last call of fit failed: {self._failed}")
        self._save(self._last)
        self._checkpoints.wait()
        self._report()
        if self._member.job.export is not None and self.is_chief:
            self._export(self._member.job.export, self._last.model)
        self._checkpoints.finish(self.step)

    def _export(self, settings: ExportSettings, model: Any) -> None:
        """Export the model of the last `fit` as the script has left it, and then the best one."""
        exported, writer = [], writer_of(self._member.job, self._member.round)
        if ExportedModel.FINAL in settings.which:
            exported.append(export(settings, ExportedModel.FINAL, model, self.step, writer))
        best = script.evaluations().best
        if ExportedModel.BEST in settings.which and best is not None and best.checkpoint:
            checkpoint = stored_checkpoint(best.checkpoint)
            # After the final model is written: this replaces its weights (ADR 35).
            training_state.restore_model(f"model/{self.models.index(model)}", model, checkpoint)
            exported.append(export(settings, ExportedModel.BEST, model, best.step, writer))
        script.report_exports(exported)


class _ObservedTrainFunction:
    """The train function of a model on one worker, which notifies the running `fit` of its calls."""

    def __init__(self, model: Any, function: Callable[..., Any], training: ScriptTraining) -> None:
        self._model, self._function, self._training = model, function, training

    def __call__(self, iterator: Any) -> Any:
        """Run the steps of a call."""
        fit = self._training.running_fit
        if fit is None or fit.model is not self._model:
            return self._function(iterator)
        fit.before_call()
        logs = self._function(iterator)
        states = [variable.value.read_value() for variable in self._model.metrics_variables]
        fit.after_call(self._model.steps_per_execution, fit.flag(), states)
        return logs


@contextlib.contextmanager
def _exit_on_error() -> Iterator[None]:
    """End this process with the exit code of a `TrainerError`, as the trainer does."""
    try:
        yield
    except TrainerError as error:
        script_end.leave_with(error)
