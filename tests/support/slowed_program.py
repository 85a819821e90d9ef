"""A program for the trainer whose step takes longer on one member: inside of its computation, as on a slow machine."""

import os
import time
from typing import Any, Final

import numpy as np
import tensorflow as tf

from support.held_program import Line as HeldLine
from tfdist.contract import JOB_ENV
from tfdist_trainer import slow_member

SECONDS: Final = "STEP_SECONDS"
"""Environment variable: duration of the computation of one step."""


def wait(losses: Any) -> Any:
    time.sleep(float(os.environ[SECONDS]))
    return np.asarray(losses)


class Line(HeldLine):
    """Fits a line; the loss takes as long as the environment of the replica states."""

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        losses = super().loss(labels, predictions)
        waited = tf.numpy_function(wait, [losses], losses.dtype)
        with tf.control_dependencies([waited]):
            return tf.identity(losses)


if JOB_ENV in os.environ:  # in a replica, where the rule names a member after some executions instead of seconds
    slow_member.SAMPLE_SECONDS = slow_member.UPDATE_SECONDS = slow_member.HOLD_SECONDS = 0.0  # type: ignore[misc]
