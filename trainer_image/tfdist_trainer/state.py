"""The variables of a training run, saved to and restored from checkpoints."""

import errno
from collections.abc import Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist.contract import ExitCode
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer.checkpoint import VARIABLES, CheckpointWriter, DataCursor, StoredCheckpoint
from tfdist_trainer.errors import StorageError, classify, one_line
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.storage.locations import Location
from tfdist_trainer.stored_checkpoint import stored_checkpoint
from tfdist_trainer.strategies import initial_values
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.timestamps import now_text

_ERRNOS: Final = {
    tf.errors.NotFoundError: errno.ENOENT,
    tf.errors.PermissionDeniedError: errno.EACCES,
    tf.errors.ResourceExhaustedError: errno.ENOSPC,
}
"""The `errno` behind each of TensorFlow's errors, which its file system maps (`tsl/platform/errors.cc`)."""

_SEEDS: Final = "random_seeds"
"""The attribute of a checkpoint that has the states of the layers' random number generators."""

_REMOTE: Final = "remote target /job:"
"""Part of the message of every error that came over a connection to another process."""


class State:
    """Model, optimizer, step and epoch as one `tf.train.Checkpoint`.

    `unsynchronized` are the variables that have another initial value on each member until
    `broadcast_initial_values`.
    """

    def __init__(self, model: Any, optimizer: Any, unsynchronized: Sequence[Any] = ()) -> None:
        self.model = model
        self.optimizer = optimizer
        self._unsynchronized = list(unsynchronized)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._objects = {"model": model, "optimizer": optimizer, "step": self._step, "epoch": self._epoch}
        self._checkpoint = tf.train.Checkpoint(**self._objects, **_random_seeds(model))

    @property
    def variables(self) -> list[Any]:
        """The variables of model and optimizer; of a sharded variable its shards."""
        logical = [*self.model.variables, *self.optimizer.variables]
        return [part for variable in logical for part in getattr(variable, "variables", [variable])]

    def broadcast_initial_values(self, gang: ReplicaGroup, *, restored: bool) -> None:
        """Set what is not `restored` to the chief's values on all members; a collective, before the first step."""
        restored_ids = {id(raw(variable)) for variable in self.variables} if restored else set()
        initial_values.broadcast(
            gang, [variable for variable in self._unsynchronized if id(variable) not in restored_ids]
        )
        self._unsynchronized.clear()

    def finalize(self) -> bool:
        """Set the weights to those that a training ends with, as `fit` does; called in the strategy's scope.

        Return whether the weights change: to moving averages, with an optimizer that has `use_ema`.
        """
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)
        if not getattr(optimizer, "use_ema", False) or not int(raw(optimizer.iterations).read_value()):
            return False
        optimizer.finalize_variable_values(self.model.trainable_variables)
        return True

    def save(self, writer: CheckpointWriter, cursor: DataCursor) -> CheckpointReport:
        """Write a checkpoint; only the chief calls this.

        This is not a collective: every variable has the same value on all replicas, and none is of the kind that
        TensorFlow sums when it saves.
        """
        self._step.assign(cursor.step)
        self._epoch.assign(cursor.epoch)

        def write(prefix: str) -> None:
            try:
                self._checkpoint.write(prefix)
            except tf.errors.OpError as error:
                # A lost parameter server is a lost peer, and no failure of the storage.
                _raise_if_peer_lost(error)
                raise OSError(_ERRNOS.get(type(error), errno.EIO), one_line(error.message)) from error

        return writer.write(cursor, now_text(), write)

    def restore(self, where: Location | StoredCheckpoint) -> None:
        """Set all variables from a checkpoint, given as such or by its path or URL.

        Raises:
            StorageError: as `restore_model`.
            tf.errors.OpError: a parameter server is lost.
        """
        # The model of the checkpoint may have had no layer with a seed, such as Dropout.
        stored = stored_checkpoint(where)
        checkpoint = tf.train.Checkpoint(**self._objects) if not _has_random_seeds(stored) else self._checkpoint
        _read_checkpoint(checkpoint, stored, strict=True)


def restore_model(model: keras.Model, where: Location | StoredCheckpoint) -> None:
    """Set only the variables of `model` from a checkpoint, given as such or by its path or URL.

    Raises:
        StorageError: the checkpoint cannot be read or belongs to another model.
    """
    _read_checkpoint(tf.train.Checkpoint(model=model), stored_checkpoint(where), strict=False)


def _random_seeds(model: Any) -> dict[str, list[Any]]:
    """Return the seeds of a model's layers, such as `Dropout`, which `tf.train.Checkpoint(model=...)` does not find."""
    weights = {id(variable) for variable in model.weights}
    seeds = [raw(variable) for variable in model.variables if id(variable) not in weights]
    return {_SEEDS: seeds} if seeds else {}


def _has_random_seeds(stored: StoredCheckpoint) -> bool:
    """Return whether the checkpoint has random seeds; also if it cannot be read, which is reported then."""
    try:
        names = tf.train.load_checkpoint(str(stored.path() / VARIABLES)).get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError):
        return True
    return any(name.startswith(f"{_SEEDS}/") for name in names)


def _read_checkpoint(checkpoint: tf.train.Checkpoint, stored: StoredCheckpoint, *, strict: bool) -> None:
    try:
        status = checkpoint.read(str(stored.path() / VARIABLES))
        status.assert_existing_objects_matched()
        # Training must restore all; an evaluation or export needs the model alone.
        if strict:
            status.assert_consumed()
        else:
            status.expect_partial()
    except (AssertionError, ValueError) as error:
        raise StorageError(
            f"{stored}: is a checkpoint of another model; use the configuration that it was trained with, "
            f"or another checkpoint.directory ({one_line(str(error))[:200]})"
        ) from None
    except tf.errors.OpError as error:
        _raise_if_peer_lost(error)
        raise StorageError(f"{stored}: cannot be read: {one_line(error.message)}") from None


def _raise_if_peer_lost(error: tf.errors.OpError) -> None:
    """Raise `error` again if the connection to a parameter server failed, and not a file."""
    if classify(error).exit_code is ExitCode.PEER_LOST and _REMOTE in error.message:
        raise error
