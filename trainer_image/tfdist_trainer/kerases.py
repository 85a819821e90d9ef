"""The Keras that programs make models and optimizers of: Keras 3, or `tf_keras` where `TF_USE_LEGACY_KERAS=1` is set.

TensorFlow's partitioner, which divides variables over parameter servers, works with `tf_keras` alone. A configuration
that asks for it (`minShardBytes`) has `runtime.prepare` set the variable, before this module is imported. Metrics are
Keras 3's in any case: they see tensors, and no model.
"""

import os
from typing import TYPE_CHECKING

from tfdist_trainer.runtime import LEGACY_KERAS_ENV

if TYPE_CHECKING or os.environ.get(LEGACY_KERAS_ENV) != "1":
    import keras
else:
    import tf_keras as keras

__all__ = ["keras"]
