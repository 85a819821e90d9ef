"""One step of a model on one replica, and what makes it exact: weights of local batches, and one exchange of gradients.

Keras divides the loss of each replica by the number of replicas and adds the gradients up. That is the gradient of the
global batch only if all local batches are equally large. Here a loss is of the local batch, and `exchange`
computes the mean of the gradients, weighted by the number of examples of each replica. A loss that is not a mean over
the examples (a sum, or a mean over unmasked values) is scaled so that this weighted mean is exact as well.

Where the optimizer scales the loss, which Keras' own `train_step` lets it do, the weight enters there and not after the
gradient: a layer that adds up over replicas, such as synchronized BatchNormalization, has gradients of other replicas'
losses, with their weights.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.keras.assigned_values import AssignedValues, added_rows
from tfdist_trainer.keras.metric_states import Change, change_of, is_state, join_changes
from tfdist_trainer.step_clock import time_after
from tfdist_trainer.strategies.reduction import all_reduce_sum, timed_all_reduce_mean

# By thread, because Keras' own functions are between the caller and the hooks, and each local replica is traced in a
# thread.
_active: Final = threading.local()


class ReplicaStep:
    """The step that a replica is computing; tensors inside the graph."""

    def __init__(
        self,
        examples: tf.Tensor,
        replicas: int,
        replica: tf.Tensor,
        *,
        may_be_empty: bool,
        due: tf.Tensor | bool = False,
    ) -> None:
        """Begin a step on a batch.

        Args:
            examples: number of examples of the local batch, float32 []; 0 if the data of this worker has ended.
            replicas: number of replicas of all workers.
            replica: number of this replica, from 0, int32 [].
            may_be_empty: whether `examples` can be 0.
            due: whether to measure the exchanges of gradients, bool [].
        """
        self.examples = examples
        self.replica = replica
        self.assigned: list[Any] = []
        """Keras variables that the step has assigned, other than by an optimizer."""
        self.own_weights: dict[int, Any] = {}
        """Those that are trained, with a value of this replica, by identity."""
        self.changes: dict[int, tuple[Any, Change]] = {}
        """Those that are states of metrics, and what the step does to them, by identity."""
        self.local: set[int] = set()
        """Those with a value of this replica, by identity."""
        self._values = AssignedValues(replica)
        self._replicas = replicas
        self._may_be_empty = may_be_empty
        self._weighing: set[int] = set()
        """Optimizers whose losses have the weight, by identity."""
        self._sharing: dict[int, tf.Tensor] = {}
        """Optimizers whose losses have the share of the examples, and the number of all, float32 [], by identity."""
        self.is_exchanged = False
        """Whether the gradients have been exchanged."""
        self.has_joined_rows = False
        """Whether sparse gradients have been exchanged, the rows of which differ in number from step to step."""
        self._is_compiling = False
        self._due = due
        self._waits: list[tf.Tensor] = []
        """Seconds in each exchange, float64 []."""

    def record(self, variable: Any, value: Any) -> None:
        """Record that the step assigns `value` to a Keras `variable`."""
        self.assigned.append(variable)
        # States of metrics are reduced in a way of their own, see `metric_states`.
        if is_state(variable):
            _, before = self.changes.get(id(variable), (variable, "none"))
            self.changes[id(variable)] = variable, join_changes(before, change_of(variable.value, value))
            return
        # What an optimizer assigns is computed from exchanged gradients, such as by a constraint.
        if self.is_exchanged or not self._values.is_local(variable.value, value):
            return
        self.local.add(id(variable))
        if variable.trainable and tf.as_dtype(variable.dtype).is_floating:
            self.own_weights[id(variable)] = variable

    def sum_over_replicas(self, variable: Any, value: Any) -> Any:
        """Return the `value` that the step assigns to a Keras `variable`.

        If that adds a sum over the rows of the local batch to a statistic of a layer, it becomes the sum over the rows
        of all replicas; a collective then.
        """
        added = None if variable.trainable or is_state(variable) else added_rows(variable.value, value)
        # XLA compiles no collective; a constant that is added is equal on all replicas already.
        if added is None or self._is_compiling or not self._values.differs(added[1]):
            return value
        before, rows = added
        # A replica without examples has computed a row that must not count.
        counted = tf.where(self.examples > 0, rows, tf.zeros_like(rows))
        (total,) = all_reduce_sum([counted], self._replicas)
        # What is computed from the sum needs no average.
        self._values.are_equal(total)
        return before + total

    def average(self, weights: Sequence[Any]) -> None:
        """Set the Keras variables `weights`, which the step has assigned itself, to their mean over all replicas.

        A collective, unless there are none. The mean is weighted by the examples: for updates that are linear in
        the gradient of the local batch it is the update by the gradient of the global batch.
        """
        if not weights:
            return
        variables = [each.value for each in weights]
        values = [each.read_value() for each in variables]
        # Sums of half-precision numbers lose digits.
        wide = [tf.cast(each, tf.float32) if each.dtype.size < tf.float32.size else each for each in values]
        weighted = [_apply_weight(each, self.examples) for each in wide]
        *sums, total = all_reduce_sum([*weighted, self.examples], self._replicas)
        for variable, value, summed in zip(variables, values, sums, strict=True):
            mean = tf.math.divide_no_nan(summed, tf.cast(total, summed.dtype))
            variable.assign(tf.where(total > 0, tf.cast(mean, value.dtype), value))

    def counted_rows(self, rows: tf.Tensor) -> tf.Tensor:
        """Return `rows`, or none of them if this replica has no examples: it computes a row that does not count."""
        return rows[: tf.where(self.examples > 0, tf.shape(rows)[0], 0)] if self._may_be_empty else rows

    @property
    def exchange_wait(self) -> tf.Tensor:
        """Seconds in the exchanges so far, float64 []; 0 if one is in another graph, such as in a `tf.cond`."""
        current = tf.compat.v1.get_default_graph()
        if not self._waits or any(getattr(each, "graph", current) is not current for each in self._waits):
            return tf.constant(0.0, tf.float64)
        return tf.add_n(self._waits)

    def weigh(self, loss: Any, optimizer: Any) -> Any:
        """Return the `loss` of the local batch with its weight, for gradients that `optimizer` applies."""
        self._weighing.add(id(optimizer))
        return loss * tf.cast(self.examples, loss.dtype)

    def weigh_share(self, loss: Any, optimizer: Any) -> Any:
        """Return the `loss` of the local batch times its share of all examples, as `weigh`; a collective.

        Its gradients are then as large as on one worker: in float16 larger ones overflow.
        """
        if self._is_compiling:
            return loss
        (total,) = all_reduce_sum([self.examples], self._replicas)
        self._sharing[id(optimizer)] = total
        return loss * tf.cast(tf.math.divide_no_nan(self.examples, total), loss.dtype)

    def exchange(self, gradients: Sequence[Any], variables: Sequence[Any], optimizer: Any) -> list[Any]:
        """Return the gradients of the global batch for `variables`; a collective. Those that are None stay None.

        Sparse rows, such as an embedding's, are concatenated and stay sparse: the exchange is as large as they
        are, and the optimizer sees the rows of the global batch, as on one worker. Rows that one worker has once for a
        whole batch are added up: rows of constant places, such as positions, and of features in a `SparseTensor`.
        """
        # Three ways to weigh: after the gradient, in the loss already, or by a share of all examples in the loss.
        weight = self.examples
        if id(optimizer) in self._sharing:
            weight = self._sharing[id(optimizer)] * tf.sign(self.examples)
        elif id(optimizer) in self._weighing:
            # Without examples, a gradient may be NaN whose loss has the weight 0.
            weight = tf.sign(self.examples) if self._may_be_empty else None
        together = [self._with_equal_rows(each) for each in gradients]
        # Operations on sparse rows can lose the static shape of a dense gradient.
        weighted = [
            tf.ensure_shape(_apply_weight(_values(each), weight), [*_rows(each, variable), *variable.shape[1:]])
            for each, variable, is_one in zip(gradients, variables, together, strict=True)
            if is_one
        ]
        # The number of examples travels with the gradients: one collective for each step.
        parts = [*weighted, self.examples[None], self.examples]
        (*means, total), wait = timed_all_reduce_mean(parts, self._replicas, due=self._due)
        exchanged, waits = iter(means), [wait]
        result = [
            _with_values(each, next(exchanged))
            if is_one
            else each
            if each is None
            else self._gather(each, weight, total[0], waits)
            for each, is_one in zip(gradients, together, strict=True)
        ]
        # Measured for slow workers (ADR 48); on GPUs only where the host waits anyway (ADR 49).
        if self._due is not False:
            self._waits.append(tf.reduce_max(waits))  # at the same time
        return result

    def _with_equal_rows(self, gradient: Any) -> bool:
        """Return whether a `gradient` has the same rows on all replicas: a dense one, or one of constant places."""
        if not isinstance(gradient, tf.IndexedSlices):
            return gradient is not None
        return gradient.indices.shape.is_fully_defined() and not self._values.differs(gradient.indices)

    def _gather(
        self, rows: tf.IndexedSlices, weight: tf.Tensor | None, total: tf.Tensor, waits: list[tf.Tensor]
    ) -> tf.IndexedSlices:
        """Return the `rows` of all replicas, for the mean over `total` examples; a collective, added to the `waits`."""
        self.has_joined_rows = True
        # Rows that are unique on each replica are not after they are joined.
        are_unique = _are_unique(rows.indices)
        rows = tf.IndexedSlices(self.counted_rows(rows.values), self.counted_rows(rows.indices), rows.dense_shape)
        values = _apply_weight(rows.values, weight)
        started = None if self._due is False else time_after([values], due=self._due)
        # The collective waits for the clock: without that, all measured waits became zero (ADR 48).
        with tf.control_dependencies([] if started is None else [started]):
            weighted = tf.IndexedSlices(tf.identity(values), rows.indices, rows.dense_shape)
        joined = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, weighted)
        if started is not None:
            waits.append(time_after([joined.values], due=self._due) - started)
        values, indices = joined.values, joined.indices
        if are_unique:
            indices, places = tf.unique(indices)
            values = tf.math.unsorted_segment_sum(values, places, tf.size(indices))
        # No replica may have an example: nothing changes then.
        means = tf.math.divide_no_nan(values, tf.cast(total, values.dtype))
        return tf.IndexedSlices(means, indices, rows.dense_shape)

    @contextlib.contextmanager
    def compile_scope(self) -> Iterator[None]:
        """XLA compiles what is traced inside, which can have no collective."""
        self._is_compiling = True
        try:
            yield
        finally:
            self._is_compiling = False

    @contextlib.contextmanager
    def exchanged_scope(self) -> Iterator[None]:
        """The gradients inside are of the global batch: an optimizer that wraps another one exchanges once."""
        self.is_exchanged = True
        try:
            yield
        finally:
            self.is_exchanged = False

    def scale_sum(self, loss: Any) -> Any:
        """Scale a `loss` that is a sum over the local batch; a collective."""
        # XLA cannot compile the exchange below.
        self._check_collective()
        (total,) = all_reduce_sum([self.examples], self._replicas)
        return loss * tf.cast(tf.math.divide_no_nan(total, self.examples), loss.dtype)

    def scale_mean(self, loss: Any, values: tf.Tensor) -> Any:
        """Scale a `loss` that is a mean over `values` values of the local batch, not its examples; a collective."""
        self._check_collective()
        values = tf.stop_gradient(tf.cast(values, tf.float32)) * tf.sign(self.examples)
        total, examples = all_reduce_sum([values, self.examples], self._replicas)
        return loss * tf.cast(tf.math.divide_no_nan(values * examples, total * self.examples), loss.dtype)

    def weighted_means(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Return the means over all replicas of numbers of each local batch, in float32; a collective."""
        weighted = [_apply_weight(tf.cast(value, tf.float32), self.examples) for value in values]
        *totals, examples = all_reduce_sum([*weighted, self.examples], self._replicas)
        return [tf.math.divide_no_nan(total, examples) for total in totals]

    def _check_collective(self) -> None:
        if self._is_compiling:
            raise ValueError(
                "jit_compile=True on several workers needs a loss that is a mean over the examples. This one is a sum, "
                "or a mean over unmasked values or weights: compile the model without jit_compile."
            )


@contextlib.contextmanager
def step_scope(step: ReplicaStep) -> Iterator[None]:
    """`current_step()` is `step` inside; each local replica is traced in a separate thread."""
    # Set around the call of the model's step, in the thread that traces it.
    _active.step = step
    try:
        yield
    finally:
        _active.step = None


def current_step() -> ReplicaStep | None:
    """Return the step that this thread is computing; None outside of `fit` and `evaluate` under several workers."""
    return getattr(_active, "step", None)


def required_step() -> ReplicaStep:
    """Return the step that this thread is computing; there must be one."""
    step: ReplicaStep = _active.step
    return step


def _apply_weight(value: tf.Tensor, weight: tf.Tensor | None) -> tf.Tensor:
    """Return the product; 0 if the weight is, as without examples the value may be NaN, a mean over nothing.

    Without a `weight` return the value.
    """
    if weight is None:
        return value
    return tf.math.multiply_no_nan(value, tf.cast(weight, value.dtype))


def _are_unique(indices: tf.Tensor) -> bool:
    """Return whether the graph shows that these indices differ from each other; False without a graph."""
    # Operations that keep the values.
    while tf.is_symbolic_tensor(indices) and indices.op.type in {"Reshape", "Identity", "Cast"}:
        indices = indices.op.inputs[0]
    return tf.is_symbolic_tensor(indices) and indices.op.type in {"Unique", "UniqueV2"}


def _values(gradient: Any) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _rows(gradient: Any, variable: Any) -> Sequence[int]:
    """Return the first dimension of the values of a `gradient` for `variable`, in a list; none of a scalar."""
    return [gradient.indices.shape[0]] if isinstance(gradient, tf.IndexedSlices) else variable.shape[:1]


def _with_values(gradient: Any, values: tf.Tensor) -> Any:
    """Return a gradient like `gradient` with these `values`."""
    if not isinstance(gradient, tf.IndexedSlices):
        return values
    return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)


def examples_in(batch: Any) -> tf.Tensor:
    """Return the number of examples in a `batch` of tensors, int32 []."""
    first = next(part for part in tf.nest.flatten(batch) if part is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    return tf.cast(first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0], tf.int32)
