"""The loss of one replica: of the examples that count, and the additional losses of the model.

Additional losses are what Keras has in `Model.losses`: regularizers, and what layers add by `add_loss`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfdist_trainer.autograph import graph
from tfdist_trainer.data.pipeline import Batch
from tfdist_trainer.errors import ConfigurationError


def without_uncounted(batch: Batch) -> Batch:
    """Return `batch` with examples that count in place of examples of weight 0, whose loss may be not finite.

    Padding repeats the examples of its batch in the same order, so it stays what it is. A batch in which no example
    counts is unchanged.
    """
    counts = batch.weights > 0
    number = tf.reduce_sum(tf.cast(counts, tf.int32))
    size = tf.size(batch.weights)

    def replace_examples() -> Any:
        position = tf.range(size)
        first = tf.argsort(tf.cast(tf.logical_not(counts), tf.int32), stable=True)
        source = tf.where(counts, position, tf.gather(first, position % tf.maximum(number, 1)))
        examples = (batch.features, batch.labels)
        return tf.nest.map_structure(lambda part: tf.ensure_shape(tf.gather(part, source), part.shape), examples)

    is_mixed = tf.logical_and(number > 0, number < size)
    # The weight 0 does not suffice: the gradient of an infinite loss is NaN, also times 0.
    features, labels = tf.cond(is_mixed, replace_examples, lambda: (batch.features, batch.labels))
    return batch._replace(features=features, labels=labels)


def first_valid(batch: Batch, number: tf.Tensor) -> Batch:
    """Return `batch` with only the first `number` of its examples valid, int32 []; the others become padding."""
    valid_mask = tf.logical_and(batch.valid_mask, tf.range(tf.size(batch.weights)) < number)
    return batch._replace(weights=tf.where(valid_mask, batch.weights, 0.0), valid_mask=valid_mask)


def zero_unless(counted: tf.Tensor, gradients: Sequence[Any]) -> list[Any]:
    """Return `gradients`, or zeros without `counted`, bool []: of a loss without examples they may be NaN."""
    parts = tf.nest.flatten(list(gradients), expand_composites=True)
    masked = tf.cond(counted, lambda: parts, lambda: [tf.zeros_like(part) for part in parts])
    packed: list[Any] = tf.nest.pack_sequence_as(list(gradients), tf.nest.flatten(masked), expand_composites=True)
    return packed


def additional_loss(model: Any) -> tf.Tensor | None:
    """Return the sum of the additional losses of `model` in the call just traced, float32 []; None without any.

    Regularizers are numbers of the variables; what a layer adds is a number of the local batch, such as a mean.
    """
    losses = getattr(model, "losses", None)
    if not losses:
        return None
    return tf.add_n([tf.reduce_sum(tf.cast(loss, tf.float32)) for loss in losses])


def has_additional_loss(predict: Callable[..., Any], model: Any, features: Any) -> bool:
    """Return whether `model`, called by `predict`, has additional losses; traces it once more."""

    def call() -> Any:
        return predict(features, training=True)

    call_graph: Any = graph(call)
    call_graph.get_concrete_function()
    return bool(getattr(model, "losses", ()))


def add_to_sums(sums: tf.Tensor, additional: tf.Tensor | None) -> tf.Tensor:
    """Return the sums of the metrics of a batch with the `additional` loss added to the loss, the first metric."""
    if additional is None:
        return sums
    examples, loss, weight, remaining = tf.split(sums, [1, 1, 1, sums.shape[0] - 3])
    # The mean loss divides by the weight again.
    weighted = tf.math.multiply_no_nan(tf.cast(additional, sums.dtype), weight)
    return tf.concat([examples, loss + weighted, weight, remaining], axis=0)


def per_example(losses: Any, weights: tf.Tensor) -> tf.Tensor:
    """Return `losses` as float32 after checking that they have one value per example.

    Raises:
        ConfigurationError: they are not a tensor, or the shape is not [batch].
    """
    try:
        losses = tf.convert_to_tensor(losses)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"training.program: loss() returns a {type(losses).__name__}; return one value for each example, float32 "
            "[batch]"
        ) from None
    if losses.shape.rank != 1 or losses.shape[0] != weights.shape[0]:
        raise ConfigurationError(
            f"training.program: loss() returns shape {losses.shape}, expected {weights.shape}: one value for each "
            "example; reduce all axes except the first, for example with tf.reduce_mean(..., axis=-1)"
        )
    return tf.cast(losses, tf.float32)


def as_float32(predictions: Any) -> Any:
    """Cast half-precision predictions to float32, the type in which losses and metrics are computed.

    Raises:
        ConfigurationError: there are none.
    """
    if predictions is None:
        raise ConfigurationError("training.program: call() of the model returns a NoneType; return the predictions")
    half = (tf.float16, tf.bfloat16)
    return tf.nest.map_structure(lambda t: tf.cast(t, tf.float32) if t.dtype in half else t, predictions)
