"""The Keras of models and optimizers: Keras 3, or `tf_keras` if `TF_USE_LEGACY_KERAS=1` is set.

TensorFlow's partitioner, which shards variables over parameter servers, works with `tf_keras` only. If the
configuration sets `minShardBytes`, `runtime.prepare` sets the variable before this module is imported. Metrics are
always Keras 3's: they see tensors, not a model. `ops` are the operations on symbolic tensors of a model; of
TensorFlow those that have the names of Keras.
"""

import os
from typing import TYPE_CHECKING, Any

from keras import Variable

from tfdist_trainer.runtime import LEGACY_KERAS_ENV

if TYPE_CHECKING or os.environ.get(LEGACY_KERAS_ENV) != "1":
    import keras
    from keras import ops
else:
    import tensorflow as tf
    import tf_keras as keras

    ops = tf

__all__ = ["keras", "ops", "raw"]


def raw(variable: Any) -> Any:
    """Return the TensorFlow variable of a Keras 3 variable; variables of `tf_keras` are TensorFlow's."""
    return variable.value if isinstance(variable, Variable) else variable
