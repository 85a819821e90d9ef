"""What the values depend on that a step assigns to variables, by the graph that computes them."""

from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf

_RANDOM: Final = ("Random", "Truncated", "Stateful", "Multinomial", "EagerPyFunc", "PyFunc")
"""Begins of the types of operations whose values differ between replicas, whatever their inputs."""
SHAPES_AND_TYPES: Final = ("Identity", "Cast", "Reshape", "EnsureShape", "StopGradient", "Squeeze", "ExpandDims")
"""Types of operations that change the shape or the type of their first input alone."""


class AssignedValues:
    """The values that one replica assigns in a step, in order."""

    def __init__(self, replica: tf.Tensor) -> None:
        """Follow the values of a replica whose number, from 0, is the tensor `replica`."""
        self._replica = replica
        self._equal: set[Any] = set()
        """Operations whose values are equal on all replicas."""
        self._local: set[int] = set()
        """Handles of variables with values of this replica, by identity."""

    def is_local(self, variable: Any, value: Any) -> bool:
        """Return whether the `value` that is assigned to the TensorFlow `variable` can differ between replicas.

        It can if it depends on the batch or on random numbers, other than by a collective. Without a graph, in eager
        execution, each one can.
        """
        found = self.differs(value)
        # What is computed from this variable later in the step differs between replicas, too.
        if found and tf.is_symbolic_tensor(value):
            self._local.add(id(variable.handle))
        return found

    def are_equal(self, value: tf.Tensor) -> None:
        """Take the values that an operation of the graph computes, as `value`, for equal on all replicas."""
        self._equal.add(value.op)

    def differs(self, value: Any) -> bool:
        """Return whether `value` can differ between replicas, as `is_local`."""
        # In eager execution the graph shows nothing: every value may differ.
        if not tf.is_symbolic_tensor(value):
            return True
        tensors, seen = [value], set()
        while tensors:
            operation = tensors.pop().op
            if operation in self._equal or operation in seen:
                continue
            seen.add(operation)
            inputs = self._inputs(operation)
            if inputs is None:
                return True
            tensors.extend(inputs)
        # Remembered, so that a long graph is walked once. A variable may become local later in the step.
        self._equal |= {operation for operation in seen if operation.type != "ReadVariableOp"}
        return False

    def _inputs(self, operation: Any) -> list[tf.Tensor] | None:
        """Return the tensors on which the value of `operation` depends; None if it is one of this replica."""
        kind = operation.type
        # Its result is equal on all replicas, whatever goes in.
        if kind.startswith("Collective"):
            return []
        if kind == "ReadVariableOp":
            return None if id(outer_tensor(operation.inputs[0])) in self._local else []
        if kind.startswith(_RANDOM) or operation is getattr(self._replica, "op", None):
            return None
        # An argument of the step itself is the batch; resources are variables and tables, which are equal.
        if kind == "Placeholder" and outer_tensor(operation.outputs[0]) is operation.outputs[0]:
            return None if operation.outputs[0].dtype != tf.resource else []
        return operation_inputs(operation)


def added_rows(variable: Any, value: Any) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Return the state of the TensorFlow `variable` and the sum over rows that `value` adds to it; None if it does not.

    A mean or a constant that is added is the same number for a part of a batch; such a sum is not.
    """
    if not tf.is_symbolic_tensor(value) or value.op.type not in {"Add", "AddV2"}:
        return None
    first, second = value.op.inputs
    # Addition commutes: the state may be on either side.
    for state, rows in ((first, second), (second, first)):
        read, added = (_before(each, SHAPES_AND_TYPES) for each in (state, rows))
        if read.type == "ReadVariableOp" and outer_tensor(read.inputs[0]) is variable.handle and _is_over_rows(added):
            return state, rows
    return None


def _before(tensor: tf.Tensor, kinds: tuple[str, ...]) -> Any:
    """Return the operation of `tensor` before all operations of these `kinds`."""
    while tensor.op.type in kinds:
        tensor = tensor.op.inputs[0]
    return tensor.op


def _is_over_rows(operation: Any) -> bool:
    """Return whether an operation is a sum over rows, and maybe more: their number is not in the graph."""
    if operation.type != "Sum":
        return False
    values, axes = operation.inputs
    static = tf.get_static_value(axes)
    # A static number of rows is not a batch: a local batch has any number.
    if static is None or not values.shape.rank or values.shape[0] is not None:
        return False
    return not {0, -values.shape.rank}.isdisjoint(static.flat)


def operation_inputs(operation: Any) -> list[tf.Tensor]:
    """Return the tensors on which the value of `operation` depends, those outside of its function included."""
    if operation.type != "Placeholder":
        return list(operation.inputs)
    (argument,) = operation.outputs
    outer = outer_tensor(argument)
    return [outer] if outer is not argument and tf.is_symbolic_tensor(outer) else []


def outer_tensor(tensor: tf.Tensor) -> Any:
    """Return the tensor outside of all functions that the argument `tensor` of a function captures, or itself."""
    while tf.is_symbolic_tensor(tensor):
        captures: Iterator[tuple[Any, tf.Tensor]] = iter(getattr(tensor.graph, "captures", ()))
        outer = next((outer for outer, inner in captures if inner is tensor), tensor)
        if outer is tensor:
            break
        tensor = outer
    return tensor
