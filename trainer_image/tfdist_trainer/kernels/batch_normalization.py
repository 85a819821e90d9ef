"""Makes Keras' BatchNormalization normalize images by one fused operation, and compute its gradient by another.

Keras writes it as means, differences and products over the whole input (`keras/src/layers/normalization/
batch_normalization.py`); each of them, and of their gradients, reads and writes all of it. TensorFlow's
`FusedBatchNormV3` computes the same (arXiv 1502.03167, algorithm 1).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.upstream.keras_layers import all_layers, replace_call

_LEAST_EPSILON: Final = 1.001e-5
"""The minimum of cuDNN (`CUDNN_BN_MIN_EPSILON`)."""
_IMAGES: Final = 4
"""The rank of a batch of images."""


def fuse(model: Any) -> None:
    """Make the Keras BatchNormalization layers of `model` train by TensorFlow's kernel, if it supports them."""
    if not isinstance(model, keras.Layer):
        return  # of tf_keras
    for layer in all_layers(model):
        # Not a subclass, which may compute something else.
        if type(layer) is keras.layers.BatchNormalization and _is_plain(layer):
            replace_call(layer, do_not_convert(partial(_call, layer, layer.call)))


def _is_plain(layer: Any) -> bool:
    is_standard = not layer.synchronized and not getattr(layer, "renorm", False)
    return is_standard and layer.axis in {-1, _IMAGES - 1} and layer.epsilon >= _LEAST_EPSILON


def _call(layer: Any, by_keras: Callable[..., Any], inputs: Any, training: Any = None, mask: Any = None) -> Any:
    """Replace `by_keras`, the layer's method."""
    is_supported = inputs.dtype == tf.float32 and inputs.shape.rank == _IMAGES and mask is None
    # Inference and frozen layers read the moving statistics, as in Keras.
    if training is not True or not layer.trainable or not is_supported:
        return by_keras(inputs, training=training, mask=mask)
    channels = inputs.shape[-1]
    normal = tf.raw_ops.FusedBatchNormV3(
        x=inputs,
        scale=layer.gamma.value if layer.scale else tf.ones([channels]),
        offset=layer.beta.value if layer.center else tf.zeros([channels]),
        mean=tf.constant([]),
        variance=tf.constant([]),
        epsilon=layer.epsilon,
    )
    # The kernel returns the unbiased variance, divided by n - 1; Keras uses the variance of the batch, divided by n.
    count = tf.cast(tf.reduce_prod(tf.shape(inputs)[:-1]), tf.float32)
    variance = normal.batch_variance * (tf.maximum(count - 1, 1) / count)
    for moving, batch_value in ((layer.moving_mean, normal.batch_mean), (layer.moving_variance, variance)):
        moving.assign(moving.value * layer.momentum + batch_value * (1.0 - layer.momentum))
    return normal.y
