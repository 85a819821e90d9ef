"""The variables of a training, and their way into and out of checkpoints."""

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist.contract import ExitCode
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer.checkpoint import (
    VARIABLES,
    CheckpointReader,
    CheckpointWriter,
    Position,
    Record,
    read_record,
)
from tfdist_trainer.context import Context
from tfdist_trainer.errors import StorageError, classify, one_line
from tfdist_trainer.reporter import now_text
from tfdist_trainer.step import raw
from tfdist_trainer.strategies import first_values
from tfdist_trainer.strategies.gang import Gang

_ERRNOS: Final = {
    tf.errors.NotFoundError: errno.ENOENT,
    tf.errors.PermissionDeniedError: errno.EACCES,
    tf.errors.ResourceExhaustedError: errno.ENOSPC,
}
"""What TensorFlow's errors were before its file system named them anew (`tsl/platform/errors.cc`)."""

_REMOTE: Final = "remote target /job:"
"""In the message of every error that came over a connection to another process."""


class State:
    """Model, optimizer, step and epoch as one `tf.train.Checkpoint`.

    `apart` are the variables whose first values the members do not know of one another; see `align`.
    """

    def __init__(self, model: Any, optimizer: Any, apart: Sequence[Any] = ()) -> None:
        self.model = model
        self.optimizer = optimizer
        self._apart = list(apart)
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=self._step, epoch=self._epoch)

    @property
    def variables(self) -> list[Any]:
        """Those of model and optimizer; of one that is divided its shards."""
        whole = [*self.model.variables, *self.optimizer.variables]
        return [part for variable in whole for part in getattr(variable, "variables", [variable])]

    def align(self, gang: Gang, *, restored: bool) -> None:
        """Give all members the chief's values of what has not been `restored`; a collective, before the first step."""
        equal = {id(raw(variable)) for variable in self.variables} if restored else set()
        first_values.send(gang, [variable for variable in self._apart if id(variable) not in equal])
        self._apart.clear()

    def save(self, writer: CheckpointWriter, position: Position) -> CheckpointReport:
        """Write a checkpoint; only the chief calls this.

        It needs nobody's help: by then every variable has the same value on all replicas, and none is of the
        kind that TensorFlow adds up when it saves.
        """
        self._step.assign(position.step)
        self._epoch.assign(position.epoch)

        def write(prefix: str) -> None:
            try:
                self._checkpoint.write(prefix)
            except tf.errors.OpError as error:
                _raise_if_a_peer_is_lost(error)
                raise OSError(_ERRNOS.get(type(error), errno.EIO), one_line(error.message)) from error

        return writer.write(position, now_text(), write)

    def restore(self, path: Path) -> None:
        """Set all variables from the checkpoint directory `path`.

        Raises:
            StorageError: as `restore_model`.
            tf.errors.OpError: a process that keeps variables is lost.
        """
        _read(self._checkpoint, path, whole=True)


def new_state(context: Context) -> State:
    """Return a new model and optimizer, made in the strategy's scope; to be restored, and then aligned."""
    # Not 0: a shuffle compares the pair of this seed and its own with (0, 0), and its own is a tensor.
    keras.utils.set_random_seed(context.seed + 1)
    with first_values.made_apart(context.gang.strategy) as apart:
        model = context.program.model()
        optimizer = context.program.optimizer(context.scale)
        if context.settings.mixed_precision == "float16" and isinstance(optimizer, keras.optimizers.Optimizer):
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
    return State(model, optimizer, apart)


def restore_model(model: keras.Model, path: Path) -> None:
    """Set the variables of `model` alone from the checkpoint directory `path`.

    Raises:
        StorageError: the checkpoint cannot be read or is of another model.
    """
    _read(tf.train.Checkpoint(model=model), path, whole=False)


def _read(checkpoint: tf.train.Checkpoint, path: Path, *, whole: bool) -> None:
    try:
        status = checkpoint.read(str(path / VARIABLES))
        status.assert_existing_objects_matched()
        if whole:
            status.assert_consumed()
        else:
            status.expect_partial()
    except (AssertionError, ValueError) as error:
        raise StorageError(
            f"{path}: is a checkpoint of another model; restore the configuration it was trained with, "
            f"or use another checkpoint.directory ({one_line(str(error))[:200]})"
        ) from None
    except tf.errors.OpError as error:
        _raise_if_a_peer_is_lost(error)
        raise StorageError(f"{path}: cannot be read: {one_line(error.message)}") from None


def _raise_if_a_peer_is_lost(error: tf.errors.OpError) -> None:
    """Raise `error` again when it is no file that failed, but the connection to a process that keeps variables."""
    if classify(error).exit_code is ExitCode.PEER_LOST and _REMOTE in error.message:
        raise error


def agree_on_newest(gang: Gang, reader: CheckpointReader) -> Record | None:
    """Return the record of the newest whole checkpoint the chief sees, the same on all members; a collective.

    Raises:
        StorageError: the chief sees one that this member does not.
    """
    return share_record(gang, reader, reader.newest() if gang.member.is_chief else None)


def share_record(gang: Gang, reader: CheckpointReader, chosen: Record | None) -> Record | None:
    """Return the record that the chief has `chosen` of those of `reader`, on all members; a collective.

    Raises:
        StorageError: the chief sees one that this member does not.
    """
    # Steps are sent one too high, so that 0 can say that there is none.
    step = round(gang.from_chief(chosen.position.step + 1 if chosen else 0)) - 1
    if step < 0 or chosen is not None:
        return chosen
    return read_record(reader.path_of(step))
