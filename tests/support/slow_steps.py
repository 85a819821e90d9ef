"""Steps that take as long as the environment of a replica states, in its computation or in its input."""

import os
import time
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from tfdist_trainer import slow_member

SECONDS: Final = "STEP_SECONDS"
"""Environment variable: duration of the computation of one step."""
EXAMPLE_SECONDS: Final = "EXAMPLE_SECONDS"
"""Environment variable: duration of reading an example, of each worker in turn, or of all; separated by commas."""
HURRY: Final = "HURRY"
"""Environment variable: the rule names a member after some executions instead of seconds."""


def wait_in(losses: tf.Tensor) -> tf.Tensor:
    """Return `losses` once the time of a step is over; in one process, since the graph calls Python."""
    waited = tf.numpy_function(_wait, [losses], losses.dtype)
    with tf.control_dependencies([waited]):
        return tf.identity(losses)


def asleep(data: tf.data.Dataset, worker: int) -> tf.data.Dataset:
    """Return `data` with the time of each example; its graph can be sent to another process."""
    seconds = [float(each) for each in os.environ[EXAMPLE_SECONDS].split(",")]
    return data.apply(testing.sleep(round(1e6 * seconds[min(worker, len(seconds) - 1)])))


def hurry() -> None:
    """Have the rule of this process name a member early, if the environment asks for it."""
    if HURRY in os.environ:
        slow_member.SAMPLE_SECONDS = slow_member.UPDATE_SECONDS = slow_member.HOLD_SECONDS = 0.0  # type: ignore[misc]


def _wait(losses: Any) -> Any:
    time.sleep(float(os.environ[SECONDS]))
    return np.asarray(losses)
