"""The state of a metric on all replicas, from that on each one.

TensorFlow adds up the states, which are sums and counts in Keras' metrics. The state of a script's metric can be a
maximum or an average as well: the graph of `update_state` shows what it does to the state.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import tensorflow as tf

from tfdist_trainer.keras.assigned_values import SHAPES_AND_TYPES, operation_inputs, outer_tensor

Change = Literal["none", "sum", "maximum", "minimum", "replaced", "unknown"]
"""What a step does to a state: adds to it, takes the larger or smaller value, replaces it by an average or by a value
that does not depend on it, or something that the graph does not show."""
Reduction = Literal["sum", "mean", "maximum", "minimum", "first"]

_DECLARED: Final[dict[str, Reduction]] = {"mean": "mean", "only_first_replica": "first"}
_REDUCTIONS: Final[dict[Change, Reduction]] = {"maximum": "maximum", "minimum": "minimum", "replaced": "mean"}

_active: Final = threading.local()


def is_state(variable: Any) -> bool:
    """Return whether a Keras `variable` is of a metric: separate on each replica, and reduced when it is read."""
    return bool(variable.synchronization == "on_read")


def change_of(variable: Any, value: Any) -> Change:
    """Return what the assignment of `value` does to the TensorFlow `variable`, a state; "none" without a graph."""
    return _Assignment(variable).change(value) if tf.is_symbolic_tensor(value) else "none"


def join_changes(first: Change, second: Change) -> Change:
    """Return the change of both; a reset before an update is none."""
    if first in {"none", second}:
        return second
    return first if second == "none" else "unknown"


def reduction(variable: Any, change: Change) -> Reduction:
    """Return how the state in a Keras `variable` follows from the replicas' states: as it declares, or as it changes.

    The default of a metric is "sum", so a script cannot declare that.
    """
    return _DECLARED.get(variable.aggregation, _REDUCTIONS.get(change, "sum"))


def doubt(variable: Any, change: Change) -> str:
    """Return why a metric may have another value than on one worker; empty if it has not."""
    if variable.aggregation in _DECLARED or change not in {"replaced", "unknown"}:
        return ""
    done = "replaces the state of this metric" if change == "replaced" else "does not only add to the state"
    used = "mean" if change == "replaced" else "sum"
    return (
        f"update_state {done}, which is the {used} over the workers, and can differ from one worker's: "
        'keep sums and counts, a maximum or a minimum, or declare add_variable(aggregation="mean")'
    )


def to_sum(value: tf.Tensor, by: Reduction, replica: tf.Tensor, replicas: int) -> tf.Tensor:
    """Return what the replicas add up for the reduction `by` of their values."""
    if by == "first":
        return tf.where(replica == 0, value, tf.zeros_like(value))
    if by in {"maximum", "minimum"}:
        # A sum is the only reduction of the exchange: each replica has its own place in it, and the maximum is taken
        # afterwards.
        is_own = tf.reshape(tf.range(replicas) == replica, [replicas, *[1] * len(value.shape)])
        return tf.where(is_own, value[None], tf.zeros_like(value)[None])
    return value


def from_sum(total: tf.Tensor, by: Reduction, replicas: int) -> tf.Tensor:
    """Return the reduced value from the `total` of what `to_sum` returns on each replica."""
    if by == "maximum":
        return tf.reduce_max(total, axis=0)
    if by == "minimum":
        return tf.reduce_min(total, axis=0)
    return tf.cast(total / tf.cast(replicas, total.dtype), total.dtype) if by == "mean" else total


@contextlib.contextmanager
def reset_scope() -> Iterator[None]:
    """States that this thread assigns are the same on each replica inside; TensorFlow divides them by the replicas."""
    _active.resets = True
    try:
        yield
    finally:
        _active.resets = False


def is_resetting() -> bool:
    """Return whether this thread resets the metrics of a model."""
    return bool(getattr(_active, "resets", False))


class _Assignment:
    """An assignment to one state, by the graph of its value."""

    def __init__(self, variable: Any) -> None:
        self._handle = variable.handle
        self._found: dict[int, Change | Literal["self"] | None] = {}

    def change(self, value: tf.Tensor) -> Change:
        """Return what the assignment of `value` does."""
        found = self._shallow(value)
        if found == "self":
            return "none"
        if found is not None:
            return found
        # The state goes in, in a way that the last operations do not show.
        if self._depends([value]):
            return "unknown"
        return "none" if value.op.type in {"Const", "Fill", "ZerosLike"} else "replaced"

    def _shallow(self, value: tf.Tensor) -> Change | Literal["self"] | None:
        """Return the change by the last operations of `value`, "self" for the state; None if they do not show it."""
        if id(value) not in self._found:
            # Before the search: a graph with a loop would never end.
            self._found[id(value)] = None
            self._found[id(value)] = self._operation_change(value.op)
        return self._found[id(value)]

    def _operation_change(self, operation: Any) -> Change | Literal["self"] | None:
        kind, inputs = operation.type, list(operation.inputs)
        if kind == "ReadVariableOp":
            return "self" if outer_tensor(inputs[0]) is self._handle else None
        if kind in SHAPES_AND_TYPES:
            return self._shallow(inputs[0])
        if kind in {"Add", "AddV2", "AddN", "Sub"}:
            return self._sum_change(inputs, may_be_later=kind != "Sub")
        if kind in {"Maximum", "Minimum"}:
            changed: Change = "maximum" if kind == "Maximum" else "minimum"
            of_inputs = {self._shallow(each) for each in inputs}
            return changed if of_inputs <= {"self", changed, None} and of_inputs != {None} else None
        if kind in {"Select", "SelectV2"}:
            branches = {self._shallow(each) for each in inputs[1:]} - {"self"}
            return branches.pop() if len(branches) == 1 else None
        if kind in {"TensorScatterAdd", "TensorScatterUpdate"} and self._shallow(inputs[0]) in {"self", "sum"}:
            return "sum" if kind == "TensorScatterAdd" else None
        return None

    def _sum_change(self, inputs: Sequence[tf.Tensor], *, may_be_later: bool) -> Change | None:
        """Return "sum" for one input that is the state and others without it, "replaced" for a scaled state."""
        places = [place for place, each in enumerate(inputs) if self._shallow(each) in {"self", "sum"}]
        if len(places) == 1 and (may_be_later or places == [0]):
            others = [each for place, each in enumerate(inputs) if place not in places]
            return "replaced" if self._depends(others) else "sum"
        if any(each.op.type in {"Mul", "RealDiv"} and self._scales(each) for each in inputs):
            return "replaced"
        return None

    def _scales(self, product: tf.Tensor) -> bool:
        return any(self._shallow(each) in {"self", "sum"} for each in product.op.inputs)

    def _depends(self, tensors: Sequence[tf.Tensor]) -> bool:
        """Return whether the state is used to compute one of these."""
        remaining, seen = list(tensors), set()
        while remaining:
            operation = remaining.pop().op
            if operation in seen:
                continue
            seen.add(operation)
            if operation.type == "ReadVariableOp":
                if outer_tensor(operation.inputs[0]) is self._handle:
                    return True
                continue
            remaining.extend(operation_inputs(operation))
        return False
