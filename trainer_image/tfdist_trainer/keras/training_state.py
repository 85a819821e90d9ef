"""What `fit` of a script needs to continue in another process: variables, and metrics so far.

A snapshot is taken between two calls of the train function. Reading a variable copies nothing: TensorFlow copies the
buffer when the next step writes to the variable.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist_trainer.checkpoint import VARIABLES, StoredCheckpoint
from tfdist_trainer.errors import StorageError

ARRAYS: Final = ".npz"
VALUES: Final = ".json"


@dataclass(frozen=True, slots=True)
class FitSnapshot:
    """The state of training at one step; independent of what later steps do."""

    arrays: Mapping[str, Any]
    """Tensors and arrays by name, such as `optimizer/3`."""
    values: Mapping[str, Any]
    """Values that JSON can represent."""

    def write(self, prefix: str) -> None:
        """Write the files whose names begin with `prefix`.

        Raises:
            OSError: the storage failed.
        """
        np.savez(
            # No pickled objects: a reader must execute nothing (ADR 34).
            prefix + ARRAYS,
            allow_pickle=False,
            **{name: np.asarray(array) for name, array in self.arrays.items()},
        )
        Path(prefix + VALUES).write_text(json.dumps(self.values), encoding="utf-8")


def read(checkpoint: StoredCheckpoint) -> FitSnapshot:
    """Return the snapshot in the files of a checkpoint, which has no reference to them.

    Raises:
        StorageError: it is the checkpoint of a program, or cannot be read.
    """
    prefix = checkpoint.path() / VARIABLES
    try:
        with np.load(f"{prefix}{ARRAYS}", allow_pickle=False) as arrays:
            return FitSnapshot(dict(arrays), json.loads(Path(f"{prefix}{VALUES}").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StorageError(f"{checkpoint}: is no checkpoint of a script, or cannot be read: {error}") from None


def restore_model(owner: str, model: Any, checkpoint: StoredCheckpoint) -> None:
    """Set the variables of `model`, which a checkpoint has under the name `owner`.

    Raises:
        StorageError: the checkpoint cannot be read, or is of another model.
    """
    # Checks the files against their checksums.
    checkpoint.record()
    assign(owner, model, model.variables, read(checkpoint), str(checkpoint))


def variables(owner: str, model: Any, keras_variables: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of Keras variables, on this worker's first replica."""
    for number, variable in enumerate(keras_variables):
        yield f"{owner}/{number}", _copies(model, variable)[0].read_value()


def fits(owner: str, targets: Sequence[Any], snapshot: FitSnapshot) -> bool:
    """Return whether the variables that the snapshot has of `owner` have the shapes of `targets`."""
    return [array.shape for array in _arrays(owner, targets, snapshot)] == [tuple(each.shape) for each in targets]


def _arrays(owner: str, targets: Sequence[Any], snapshot: FitSnapshot) -> list[Any]:
    # One more than needed, so that a model with fewer variables does not fit.
    names = (f"{owner}/{number}" for number in range(len(targets) + 1))
    return [snapshot.arrays[name] for name in names if name in snapshot.arrays]


def assign(owner: str, model: Any, targets: Sequence[Any], snapshot: FitSnapshot, path: str) -> None:
    """Set variables of Keras on all replicas of this worker.

    Raises:
        StorageError: the snapshot, in the checkpoint at this path or URL, is of other variables.
    """
    arrays = _arrays(owner, targets, snapshot)
    if not fits(owner, targets, snapshot):
        hint = "" if model.built else "; the model is not built before its first step: give it an Input, or call build"
        raise StorageError(
            f"{path}: is a checkpoint of another {owner.partition('/')[0]}, with {len(arrays)} variables instead of "
            f"{len(targets)}, or of other shapes; use another checkpoint.directory, or checkpoint.restore: None{hint}"
        )
    for variable, array in zip(targets, arrays, strict=True):
        for copy in _copies(model, variable):
            copy.assign(_as_type(array, copy.dtype))


def assign_sums(model: Any, sums: Sequence[Any], *, to_this_worker: bool) -> None:
    """Set the states of all metrics so that all replicas together give `sums`: one has them, the others are reset.

    A state that is declared to be a mean is on all of them.
    """
    # TensorFlow adds up the states of all replicas: one has the sums, all others are 0.
    model.reset_metrics()
    for variable, total in zip(model.metrics_variables, sums, strict=True):
        for number, copy in enumerate(_copies(model, variable)):
            if (to_this_worker and number == 0) or variable.aggregation in {"mean", "only_first_replica"}:
                copy.assign(_as_type(total, copy.dtype))


def _copies(model: Any, variable: Any) -> tuple[Any, ...]:
    """Return the copies of a variable on the replicas of this worker; no collective reads or assigns them."""
    return tuple(model.distribute_strategy.experimental_local_results(variable.value))


def _as_type(array: Any, dtype: tf.DType) -> tf.Tensor:
    """Return `array` as a tensor of `dtype`; NumPy keeps bfloat16 and the like as raw bytes."""
    kind = dtype.as_numpy_dtype
    return tf.constant(array.view(kind) if array.dtype.kind == "V" else array, dtype)
