"""Makes embeddings exchange only the rows of a step with the parameter servers, and not their whole tables.

Keras' `Embedding` reads its variable as a tensor and gathers rows of that (`ops.take`, `keras/src/backend/tensorflow/
numpy.py`), so that a worker copies the table from its parameter server in each step, and Keras' optimizers need a
gradient of all rows, which is sent back. Here the rows are gathered where the variable is, their gradient is sent as
`tf.IndexedSlices`, and becomes a gradient of all rows where the variable is. The update itself is the optimizer's:
moments of rows that a step does not use decay as in Keras.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.upstream.keras_layers import all_layers, replace_call


def gather_rows(model: Any) -> None:
    """Make the layers of `model` that are Keras' own Embedding gather their rows on the device of the table."""
    if not isinstance(model, keras.Layer):
        return  # of tf_keras, which does so itself
    for layer in all_layers(model):
        # Not a subclass, which may compute something else.
        if type(layer) is keras.layers.Embedding and _is_plain(layer):
            replace_call(layer, do_not_convert(partial(_call, layer, layer.call)))


def without_duplicates(gradients: Sequence[Any]) -> list[Any]:
    """Return `gradients` with each row of an `IndexedSlices` once: less to send, and the norm of the dense gradient."""
    return [_sum_duplicates(each) if isinstance(each, tf.IndexedSlices) else each for each in gradients]


def dense_gradients(gradients: Sequence[Any], variables: Sequence[Any]) -> list[tf.Tensor]:
    """Return `gradients` as tensors in the shapes of `variables`, each computed on the device of its variable."""
    return list(map(_dense_gradient, gradients, variables))


def _is_plain(layer: Any) -> bool:
    return not layer.lora_enabled and layer.quantization_mode is None


def _call(layer: Any, by_keras: Callable[[Any], Any], inputs: Any) -> Any:
    """Replace `by_keras`, the layer's method."""
    if not isinstance(inputs, tf.Tensor):
        return by_keras(inputs)
    table = raw(layer.embeddings)
    rows = inputs if inputs.dtype in {tf.int32, tf.int64} else tf.cast(inputs, tf.int32)
    # Keras counts negative indices from the end.
    rows = tf.where(rows < 0, rows + tf.cast(layer.input_dim, rows.dtype), rows)
    return tf.cast(tf.gather(table, rows), layer.compute_dtype)


def _sum_duplicates(slices: tf.IndexedSlices) -> tf.IndexedSlices:
    rows, positions = tf.unique(slices.indices)
    values = tf.math.unsorted_segment_sum(slices.values, positions, tf.size(rows))
    return tf.IndexedSlices(values, rows, slices.dense_shape)


def _dense_gradient(gradient: Any, variable: Any) -> tf.Tensor:
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    # On the parameter server: only the rows of the step travel (ADR 43).
    with tf.device(variable.device):
        return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])
