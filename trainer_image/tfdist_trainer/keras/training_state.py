"""What `fit` of a script needs to continue in another process: variables, metrics so far, and callbacks.

A snapshot is taken between two calls of the train function. Reading a variable copies nothing: TensorFlow copies the
buffer when the next step writes to the variable.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist_trainer.checkpoint import VARIABLES, StoredCheckpoint
from tfdist_trainer.errors import StorageError

ARRAYS: Final = ".npz"
VALUES: Final = ".json"


@dataclass(frozen=True, slots=True)
class Snapshot:
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
            prefix + ARRAYS, allow_pickle=False, **{name: np.asarray(array) for name, array in self.arrays.items()}
        )
        Path(prefix + VALUES).write_text(json.dumps(self.values), encoding="utf-8")


def read(checkpoint: StoredCheckpoint) -> Snapshot:
    """Return the snapshot in the files of a checkpoint, which has no reference to them.

    Raises:
        StorageError: it is the checkpoint of a program, or cannot be read.
    """
    prefix = checkpoint.path() / VARIABLES
    try:
        with np.load(f"{prefix}{ARRAYS}", allow_pickle=False) as arrays:
            return Snapshot(dict(arrays), json.loads(Path(f"{prefix}{VALUES}").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StorageError(f"{checkpoint}: is no checkpoint of a script, or cannot be read: {error}") from None


def restore_model(owner: str, model: Any, checkpoint: StoredCheckpoint) -> None:
    """Set the variables of `model`, which a checkpoint has as those of `owner`.

    Raises:
        StorageError: the checkpoint cannot be read, or is of another model.
    """
    checkpoint.record()
    assign(owner, model, model.variables, read(checkpoint), str(checkpoint))


def variables(owner: str, model: Any, keras_variables: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of variables of Keras, those of this worker's first replica."""
    for number, variable in enumerate(keras_variables):
        yield f"{owner}/{number}", _copies(model, variable)[0].read_value()


def fits(owner: str, targets: Sequence[Any], snapshot: Snapshot) -> bool:
    """Return whether the variables that the snapshot has of `owner` have the shapes of `targets`."""
    return [array.shape for array in _arrays(owner, targets, snapshot)] == [tuple(each.shape) for each in targets]


def _arrays(owner: str, targets: Sequence[Any], snapshot: Snapshot) -> list[Any]:
    names = (f"{owner}/{number}" for number in range(len(targets) + 1))
    return [snapshot.arrays[name] for name in names if name in snapshot.arrays]


def assign(owner: str, model: Any, targets: Sequence[Any], snapshot: Snapshot, path: str) -> None:
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
            copy.assign(_typed(array, copy.dtype))


def assign_sums(model: Any, sums: Sequence[Any], *, to_this_worker: bool) -> None:
    """Set the states of all metrics so that their sum over all replicas is `sums`: one replica has them, others 0."""
    for variable, total in zip(model.metrics_variables, sums, strict=True):
        for number, copy in enumerate(_copies(model, variable)):
            holds_sum = to_this_worker and number == 0
            copy.assign(_typed(total if holds_sum else np.zeros_like(total), copy.dtype))


def _copies(model: Any, variable: Any) -> tuple[Any, ...]:
    """Return the copies of a variable on the replicas of this worker; no collective reads or assigns them."""
    return tuple(model.distribute_strategy.experimental_local_results(variable.value))


def _typed(array: Any, dtype: tf.DType) -> tf.Tensor:
    """Return `array` as a tensor of `dtype`; NumPy keeps bfloat16 and the like as raw bytes."""
    kind = dtype.as_numpy_dtype
    return tf.constant(array.view(kind) if array.dtype.kind == "V" else array, dtype)


_NOT_STATE: Final = frozenset({"model", "_model", "params", "validation_data"})


@dataclass(slots=True)
class CallbackState:
    """What a callback has changed about itself since `fit` began: numbers, texts, arrays, and lists and dicts of them.

    Attributes that were given to its constructor stay those of the script, which may have been corrected since.
    """

    callback: Any
    _begin: dict[str, tuple[str, dict[str, Any]]] = field(init=False)

    def __post_init__(self) -> None:
        self._begin = self._encode()

    def changed(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the changed attributes as JSON has them, and their arrays by name."""
        changes = {name: code for name, code in self._encode().items() if not _equal(code, self._begin.get(name))}
        arrays = {key: array for _, parts in changes.values() for key, array in parts.items()}
        return {name: json.loads(text) for name, (text, _) in changes.items()}, arrays

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Set the attributes that `changed` returned in another process."""
        for name, value in values.items():
            setattr(self.callback, name, decoded(value, arrays))

    def _encode(self) -> dict[str, tuple[str, dict[str, Any]]]:
        attributes = {}
        for name, value in vars(self.callback).items():
            if name in _NOT_STATE:
                continue
            arrays: dict[str, Any] = {}
            try:
                attributes[name] = (json.dumps(encoded(value, name, arrays)), arrays)
            except TypeError:
                continue
        return attributes


def _equal(state: tuple[str, dict[str, Any]], previous: tuple[str, dict[str, Any]] | None) -> bool:
    if previous is None or state[0] != previous[0]:
        return False
    return all(np.array_equal(array, previous[1][key]) for key, array in state[1].items())


def encoded(value: Any, name: str, arrays: dict[str, Any]) -> Any:
    """Return `value` for JSON, with its arrays in `arrays`.

    Raises:
        TypeError: it is or has an object of another kind.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        arrays[f"{name}/{len(arrays)}"] = np.array(value)
        return {"array": f"{name}/{len(arrays) - 1}"}
    if tf.is_tensor(value):
        return encoded(value.numpy(), name, arrays)
    if isinstance(value, list | tuple):
        return {type(value).__name__: [encoded(each, name, arrays) for each in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encoded(each, name, arrays) for key, each in value.items()}}
    raise TypeError(type(value).__name__)


def decoded(value: Any, arrays: Mapping[str, Any]) -> Any:
    """Return what `encoded` was given, with its `arrays`."""
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "array":
        return arrays[content]
    if kind == "dict":
        return {key: decoded(each, arrays) for key, each in content.items()}
    values = [decoded(each, arrays) for each in content]
    return tuple(values) if kind == "tuple" else values
