"""Image classification whose training steps take at least `PACE_SECONDS`, so that a test can act while it trains."""

import os
import time

import numpy as np
import tensorflow as tf

from tfdist_trainer.programs.image_classification import ImageClassification

PACE = float(os.environ.get("PACE_SECONDS", "0"))


def _pause() -> np.float32:
    time.sleep(PACE)
    return np.float32(0.0)


class Paced(ImageClassification):
    """The bundled program, at a pace."""

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the loss of the bundled program."""
        loss = super().loss(labels, predictions)
        return loss + tf.numpy_function(_pause, [], tf.float32) if PACE else loss
