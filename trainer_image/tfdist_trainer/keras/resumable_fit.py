"""One call of `fit` of a script that saves checkpoints, resumes from one, and stops for SIGTERM.

The train function notifies it of each call (`CallObserver`): between two calls all callbacks have seen the batches of
the last one, on the main thread, so a checkpoint has their state. Two callbacks enclose the script's: the first
one restores before they begin the first epoch, and the last one saves after they have ended an epoch.
"""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import keras
import numpy as np

from tfdist_trainer import log
from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.keras import model_optimizers, stored_values, training_state
from tfdist_trainer.keras.callback_state import CallbackState
from tfdist_trainer.keras.progress import ProgressHooks
from tfdist_trainer.keras.training_state import FitSnapshot
from tfdist_trainer.upstream import keras_fit

_ATTRIBUTE: Final = (
    "after a restart it begins again: keep it as numbers, texts, arrays or containers of them, or in a file"
)
_OPTIMIZER: Final = "after a restart it begins again: make it an attribute of the model, or put it into a list of one"


@dataclass(frozen=True, slots=True)
class Resumed:
    """A checkpoint, and the call of `fit` that it continues."""

    cursor: DataCursor
    path: str
    """Or its URL."""
    snapshot: FitSnapshot

    @property
    def fit(self) -> int:
        """Number of the call of `fit`, from 0."""
        return int(self.snapshot.values["fit"])

    @property
    def has_ended(self) -> bool:
        """Whether that call had ended."""
        return bool(self.snapshot.values["finished"])

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Return the arrays whose names begin with `prefix`, without it."""
        return {name.removeprefix(prefix): array for name, array in self.snapshot.arrays.items()
                if name.startswith(prefix)}  # fmt: skip


class FitSequence(Protocol):
    """What a call of `fit` needs of the script's training as a whole."""

    step: int
    """Finished steps of all calls of `fit`."""
    models: list[Any]
    """Models in the order of their first `fit`."""
    histories: list[dict[str, Any]]
    """Histories of the calls of `fit` that have ended."""
    is_chief: bool

    @property
    def stop_requested(self) -> bool:
        """Whether SIGTERM has arrived on this worker."""

    def between_steps(self, fit: "ResumableFit", *, stop: bool, epoch_ended: bool) -> None:
        """Save if it is due; stop if the workers have agreed to."""


class ResumableFit:
    """The state of one call of `fit`."""

    def __init__(self, script: FitSequence, number: int, model: Any, resumed: Resumed | None) -> None:
        """Begin the call with this `number`; `resumed` is the checkpoint that the script continues."""
        # Before training: an optimizer is found by what it updates, if the model does not have it.
        model_optimizers.watch()
        self.iterator: Any = None
        """Keras' iterator of the epochs."""
        self.number = number
        self.model = model
        self.has_ended = False
        self._script = script
        # Later calls of `fit` than the interrupted one begin as the script says.
        self._resumed = resumed if resumed is not None and number <= resumed.fit else None
        self._history = keras.callbacks.History()
        self._states: list[CallbackState] = []
        self._epoch = self._batches = 0
        self._metrics: Sequence[Any] = ()
        self._stop = self._has_saved = False

    def enclose(self, callbacks: Sequence[Any]) -> list[Any]:
        """Return `callbacks` between the two of this class."""
        histories = [each for each in callbacks if isinstance(each, keras.callbacks.History)]
        self._history = histories[0] if histories else self._history
        listed = [*callbacks, *([] if histories else [self._history])]
        # First restores before any callback of the script begins its epoch, Last saves after all have ended theirs (ADR
        # 34).
        return [_First(self), *listed, _Last(self, listed)]

    # As `CallObserver`.

    def before_call(self) -> None:
        """Save or stop, if the workers have agreed on it after the last call."""
        # At the begin of an epoch the last one has been handled by `end_epoch`.
        if self._batches:
            self._script.between_steps(self, stop=self._stop, epoch_ended=False)

    def flag(self) -> bool:
        """Return whether this worker has to stop."""
        return self._script.stop_requested

    def after_call(self, steps: int, flag: bool, metrics: Sequence[Any]) -> None:
        """Count the steps; all workers stop if one has to."""
        self._batches += steps
        self._script.step += steps
        self._stop = self._stop or flag
        self._metrics = metrics

    # Called by the two callbacks.

    def begin(self, callbacks: Sequence[Any], epochs: int) -> None:
        """Record the state of the callbacks when `fit` of `epochs` epochs begins, and choose the first epoch."""
        # Before anything is restored: a checkpoint has what has changed since here.
        self._states = [CallbackState(each) for each in callbacks if not isinstance(each, ProgressHooks)]
        if self._resumed is None:
            return
        # A call that had ended runs no epoch, and returns its stored history.
        keras_fit.begin_at(self.model, epochs if self._is_over() else self._resumed.cursor.epoch)
        # Variables must exist before their values are restored.
        self._build(self._resumed.snapshot)

    def begin_epoch(self, epoch: int) -> None:
        """Restore before the first epoch."""
        self._epoch, self._batches = epoch, 0
        self._restore()

    def end_epoch(self) -> None:
        """Save or stop after an epoch and its validation."""
        self._epoch, self._batches, self._metrics = self._epoch + 1, 0, ()
        self._script.between_steps(self, stop=self._stop, epoch_ended=True)

    def end(self) -> None:
        """Restore if no epoch was left."""
        # Nothing if the first epoch has restored already.
        self._restore()
        self.has_ended = True
        keras_fit.begin_at(self.model, None)

    @property
    def cursor(self) -> DataCursor:
        """Where training is."""
        return DataCursor(step=self._script.step, epoch=self._epoch, step_in_epoch=self._batches)

    @property
    def history(self) -> dict[str, Any]:
        """Return the history of this call."""
        return dict(self._history.history)

    def snapshot(self) -> tuple[FitSnapshot, float]:
        """Return the state of training, and the seconds that this took."""
        started = time.monotonic()
        # With the first checkpoint, when all optimizers have updated something.
        self._report_optimizers()
        arrays: dict[str, Any] = {}
        for number, model in enumerate(self._script.models):
            arrays |= dict(training_state.variables(f"model/{number}", model, model.variables))
        arrays |= {f"metric/{number}": state for number, state in enumerate(self._metrics)}
        callbacks = []
        for number, state in enumerate(self._states):
            values, parts = state.changes()
            for name, kind in state.not_stored():
                _report("callback-not-stored", f"{type(state.callback).__name__}.{name}", kind, _ATTRIBUTE)
            callbacks.append({"class": type(state.callback).__name__, "values": values})
            arrays |= {f"callback/{number}/{name}": part for name, part in parts.items()}
        values = {
            "fit": self.number,
            "finished": self.has_ended,
            "callbacks": callbacks,
            "batchesPerEpoch": self.iterator.batches_per_epoch,
            "histories": stored_values.encode_value(self._script.histories[: self.number], "history", arrays),
            "optimizers": model_optimizers.encode_optimizers(self._script.models, arrays),
        }
        return FitSnapshot(arrays, values), time.monotonic() - started

    def _report_optimizers(self) -> None:
        """Name the optimizers in the log that no checkpoint has, when the first one of this `fit` is saved."""
        if not self._has_saved:
            for each in model_optimizers.not_found(self._script.models):
                _report("optimizer-not-stored", each.name, type(each).__name__, _OPTIMIZER)
        self._has_saved = True

    def _build(self, snapshot: FitSnapshot) -> None:
        """Build what Keras would build in the first step, on one worker: metrics, and the optimizer if it was built.

        A model whose `train_step` has optimizers of its own never builds the one that `compile` gives it by default.
        """
        spec = self.iterator.element_spec
        builds = model_optimizers.was_built(self._script.models.index(self.model), snapshot)
        if spec is not None:
            keras_fit.build(self.model, spec, with_optimizer=builds)
        optimizer = getattr(self.model, "optimizer", None)
        if builds and optimizer is not None and not optimizer.built:  # Keras finalizes it also if no epoch is left
            optimizer.build(self.model.trainable_variables)

    def _is_over(self) -> bool:
        return self._resumed is not None and (self.number < self._resumed.fit or self._resumed.has_ended)

    def _restore(self) -> None:
        # Once: later epochs go on from what training has reached.
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            return
        number = self._script.models.index(self.model)
        self._assign(f"model/{number}", self.model.variables, resumed)
        # The models are as at the checkpoint, later than this call; only its history is from it.
        if self.number < resumed.fit:
            histories = stored_values.decode_value(resumed.snapshot.values["histories"], resumed.snapshot.arrays)
            self._history.history = histories[self.number]
            model_optimizers.restore(number, self.model, resumed.snapshot, resumed.path, of_later_fit=True)
            return
        self._script.step = resumed.cursor.step
        model_optimizers.restore(number, self.model, resumed.snapshot, resumed.path)
        self._restore_callbacks(resumed)
        if not resumed.has_ended:
            self._batches = resumed.cursor.step_in_epoch
            batches = resumed.snapshot.values["batchesPerEpoch"]
            # As many iterators as Keras would have made: each draws another order of a `shuffle` (ADR 34).
            self.iterator.fast_forward(resumed.cursor.epoch, self._batches, batches)
            self._restore_metrics(resumed)
        log.event("restored", step=resumed.cursor.step, epoch=self._epoch + 1, path=resumed.path)

    def _assign(self, owner: str, variables: Sequence[Any], resumed: Resumed) -> None:
        training_state.assign(owner, self.model, variables, resumed.snapshot, resumed.path)

    def _restore_metrics(self, resumed: Resumed) -> None:
        arrays = resumed.arrays("metric/")
        states = [arrays[str(number)] for number in range(len(arrays))]
        # The script may have other metrics now.
        if [np.shape(state) for state in states] == [tuple(each.shape) for each in self.model.metrics_variables]:
            training_state.assign_sums(self.model, states, to_this_worker=self._script.is_chief)
            self._metrics = states
        elif self._batches:
            log.event("metrics-restarted", epoch=self._epoch + 1, reason="the metrics of the model have changed")

    def _restore_callbacks(self, resumed: Resumed) -> None:
        stored = resumed.snapshot.values["callbacks"]
        for number, (state, saved) in enumerate(zip(self._states, stored, strict=False)):
            # By order and class: callbacks have no names.
            if type(state.callback).__name__ == saved["class"]:
                state.restore(saved["values"], resumed.arrays(f"callback/{number}/"))


@functools.cache
def _report(event: str, name: str, kind: str, reason: str) -> None:
    """Write an event once in this process."""
    log.event(event, name=name, type=kind, reason=reason)


class _First(keras.callbacks.Callback):  # type: ignore[misc]
    """Comes before the callbacks of the script."""

    def __init__(self, fit: ResumableFit) -> None:
        super().__init__()
        self._fit = fit

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._fit.begin_epoch(epoch)

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        self._fit.end()


class _Last(keras.callbacks.Callback):  # type: ignore[misc]
    """Comes after the callbacks of the script."""

    def __init__(self, fit: ResumableFit, callbacks: Sequence[Any]) -> None:
        super().__init__()
        self._fit = fit
        self._callbacks = callbacks

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        self._fit.begin(self._callbacks, int(self.params["epochs"]))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._fit.end_epoch()
