"""Steps that take as long as the environment of a replica states, in its computation or in its input."""

import os
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from tfdist_trainer import slow_member

SECONDS: Final = "STEP_SECONDS"
"""Environment variable: duration of the computation of one step, or a file of `set_pace`."""
PACES: Final = "PACES"
"""Environment variable: folder with a file for each worker, which has the microseconds of reading an example."""
HURRY: Final = "HURRY"
"""Environment variable: the rule names a member after some executions instead of seconds."""


def wait_in(losses: tf.Tensor) -> tf.Tensor:
    """Return `losses` once the time of a step is over; in one process, since the graph calls Python."""
    waited = tf.numpy_function(_wait, [losses], losses.dtype)
    with tf.control_dependencies([waited]):
        return tf.identity(losses)


def set_pace(folder: Path, worker: int, seconds: float) -> None:
    """Have a worker read each example, or compute each step, in so many seconds from now on."""
    new = folder / f"{worker}.new"
    new.write_text(str(round(1e6 * seconds)))
    new.rename(folder / str(worker))


def paced(data: tf.data.Dataset, worker: int) -> tf.data.Dataset:
    """Return `data` with the time of each example; its graph can be sent to another process."""
    file = f"{os.environ[PACES]}/{worker}"

    def slow(*example: Any) -> tf.data.Dataset:
        # Read for each example: TensorFlow reads a file whose name is constant once.
        nothing = tf.strings.substr(tf.strings.as_string(tf.reshape(example[0], [-1])[0]), 0, 0)
        microseconds = tf.strings.to_number(tf.io.read_file(tf.strings.join([file, nothing])), tf.int64)
        # It sleeps before the example, and before the end.
        return tf.data.Dataset.from_tensors(example).apply(testing.sleep(microseconds // 2))

    return data.flat_map(slow).apply(tf.data.experimental.assert_cardinality(data.cardinality()))


def hurry() -> None:
    """Have the rule of this process name a member early, if the environment asks for it."""
    if HURRY in os.environ:
        slow_member.SAMPLE_SECONDS = slow_member.UPDATE_SECONDS = slow_member.HOLD_SECONDS = 0.0  # type: ignore[misc]


def _wait(losses: Any) -> Any:
    seconds = os.environ[SECONDS]
    time.sleep(float(Path(seconds).read_text()) / 1e6 if "/" in seconds else float(seconds))
    return np.asarray(losses)
