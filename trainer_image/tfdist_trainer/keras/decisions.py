"""Callbacks of a script under several workers: all workers follow the chief, and only the chief writes files."""

import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.keras.calls import Comparison, check_equal
from tfdist_trainer.keras.drift import DriftCheck
from tfdist_trainer.upstream.keras_fit import writes_batches
from tfdist_trainer.upstream.strategy_worker import Worker

_CHIEF_ONLY: Final = ("CSVLogger", "RemoteMonitor", "TensorBoard")
"""Callbacks of Keras that write, and do not change training: only the chief calls them, but all workers subclasses."""
_PATHS: Final = {"CSVLogger": "filename", "TensorBoard": "log_dir"}
"""Their attributes that a subclass writes to."""
_folders: "weakref.WeakKeyDictionary[Any, tempfile.TemporaryDirectory[str]]" = weakref.WeakKeyDictionary()
"""What a subclass writes to on a worker that is not the chief."""

_EPOCHS_SUFFICE: Final = (
    *("CSVLogger", "EarlyStopping", "History", "LearningRateScheduler", "ProgbarLogger", "ReduceLROnPlateau"),
    *("RemoteMonitor", "TerminateOnNaN"),
)
"""Callbacks of Keras that may see the last batch of several instead of each one."""

TRAIN_BATCH: Final = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
TEST_BATCH: Final = ("on_test_batch_begin", "on_test_batch_end")


def callback_list(callbacks: Any) -> list[Any]:
    """Return the callbacks of an argument of `fit`, which may be one of them, a list, or Keras' own container."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return list(callbacks.callbacks)
    if callbacks is None:
        return []
    return list(tf.nest.flatten(callbacks))


def batch_callbacks(callbacks: Iterable[Any], methods: Sequence[str]) -> list[str]:
    """Return the names of the classes of those `callbacks` that must see each batch in one of the `methods`."""
    of_script = [each.callback if isinstance(each, LeftToChief) else each for each in callbacks]
    return [type(each).__name__ for each in of_script if any(_needs_each_batch(each, name) for name in methods)]


def _needs_each_batch(callback: Any, method: str) -> bool:
    # Methods that are set on the instance hide the class's.
    if method in vars(callback):  # of LambdaCallback
        return True
    owner = next((each for each in type(callback).__mro__ if method in vars(each)), keras.callbacks.Callback)
    if owner is keras.callbacks.Callback or getattr(owner, "sees_blocks", False):
        return False
    if owner is keras.callbacks.TensorBoard:
        return writes_batches(callback, of_training=method in TRAIN_BATCH)
    if owner in {keras.callbacks.ModelCheckpoint, keras.callbacks.BackupAndRestore}:
        return bool(callback.save_freq != "epoch")
    return owner not in {getattr(keras.callbacks, name) for name in _EPOCHS_SUFFICE}


def worker_callbacks(callback: Any, worker: Worker) -> list[Any]:
    """Return what this worker calls instead of `callback`, a list of callbacks."""
    if worker.is_chief:
        return [callback]
    kind = next((name for name in _CHIEF_ONLY if isinstance(callback, getattr(keras.callbacks, name))), None)
    if kind is not None:
        # Keras' own class does nothing but write; a subclass may call `evaluate`, which is a collective.
        if type(callback) is getattr(keras.callbacks, kind) or kind not in _PATHS:
            return [LeftToChief(callback)]
        _write_elsewhere(callback, _PATHS[kind])
    if isinstance(callback, keras.callbacks.BackupAndRestore):
        return [RestoreOnly(callback)]
    return [callback]


def _write_elsewhere(callback: Any, attribute: str) -> None:
    """Make a callback write to a folder that is removed with it: it may call `evaluate`, which all workers must."""
    if callback not in _folders:
        _folders[callback] = tempfile.TemporaryDirectory(prefix="tfdist-", ignore_cleanup_errors=True)
    setattr(callback, attribute, str(Path(_folders[callback].name, "unused")))


class LeftToChief(keras.callbacks.Callback):  # type: ignore[misc]
    """Stands on other workers for a callback that only the chief calls.

    The metrics of a validation are exchanged in each call, so all workers must run equally many batches in one.
    """

    def __init__(self, callback: Any) -> None:
        super().__init__()
        self.callback = callback


class RestoreOnly(keras.callbacks.Callback):  # type: ignore[misc]
    """`BackupAndRestore` of a worker that is not the chief: it restores, and leaves the files to the chief."""

    def __init__(self, callback: Any) -> None:
        super().__init__()
        self._callback = callback

    def set_model(self, model: Any) -> None:
        """Restore `model`."""
        super().set_model(model)
        self._callback.set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore the newest backup."""
        self._callback.on_train_begin(logs)


class FollowChief(keras.callbacks.Callback):  # type: ignore[misc]
    """Makes all workers follow the decisions of the chief: to stop, and the learning rate.

    Keras reads them after these methods. A worker with another decision would block in a collective forever.
    """

    sees_blocks: Final = True

    def __init__(
        self, comparison: Comparison, drift: DriftCheck, *, validation_batches: int | None, each_batch: bool
    ) -> None:
        """Compare decisions, after each batch if `each_batch`, else after each epoch.

        Args:
            comparison: with all workers.
            drift: compares the weights of the model.
            validation_batches: batches of the validation data, compared at the begin; None if unknown.
            each_batch: whether a callback sees each batch.
        """
        super().__init__()
        self._comparison, self._drift = comparison, drift
        self._validation_batches = -1 if validation_batches is None else validation_batches
        self._each_batch = each_batch

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Check that all workers begin at one step, and validate on equally many batches.

        Raises:
            ValueError: a callback has restored another state on this worker than on the chief; or the numbers differ.
        """
        iterations, batches = self._comparison.gather(_iterations(self.model), self._validation_batches).T
        check_equal(batches, "the validation of fit")
        if (iterations != iterations[0]).any():
            steps = ", ".join(f"worker {rank}: {int(count)}" for rank, count in enumerate(iterations))
            raise ValueError(
                f"The workers begin at different steps ({steps}). A backup must be in a directory that all workers "
                "share, for example on a volume with access mode ReadWriteMany."
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare what callbacks such as `LearningRateScheduler` have set."""
        self._follow()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare what callbacks such as `EarlyStopping` have set, and the weights if the chief has the time."""
        if self._follow(is_due=self._drift.is_due()):
            # Only if the chief has the time, by the same exchange: a collective that one worker skips blocks the
            # others.
            self._drift.compare(self.model, self._comparison)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Compare what callbacks of the script have set."""
        if self._each_batch:
            self._follow()

    def _follow(self, *, is_due: bool = False) -> bool:
        """Take over the chief's decisions; return its `is_due`."""
        rate = _learning_rate(self.model)
        # One exchange for stop, rate and drift: each costs a round trip between two steps.
        rows = self._comparison.gather(float(bool(self.model.stop_training)), 0.0 if rate is None else rate, is_due)
        for worker, row in enumerate(rows[1:], start=1):
            for name, value, chief_value in zip(("stop_training", "learning_rate"), row, rows[0], strict=False):
                # Logged, because the callback of this worker has decided by something that differs between workers.
                if value != chief_value and not (value != value and chief_value != chief_value):  # noqa: PLR0124  both NaN
                    log.event("decision-differs", worker=worker, of=name, value=float(value), chief=float(chief_value))
        stop, chief_rate, is_due_on_chief = rows[0]
        self.model.stop_training = bool(stop)
        if rate is not None and rate != chief_rate:
            self.model.optimizer.learning_rate = float(chief_rate)
        return bool(is_due_on_chief)


def _iterations(model: Any) -> float:
    optimizer = getattr(model, "optimizer", None)
    return -1.0 if optimizer is None else float(optimizer.iterations.numpy())


def _learning_rate(model: Any) -> float | None:
    """Return the learning rate; None if it is a schedule, which is a function of the step."""
    rate: Any = getattr(getattr(model, "optimizer", None), "learning_rate", None)
    return float(rate.numpy()) if isinstance(rate, keras.Variable) else None
