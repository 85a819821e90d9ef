"""Runs the model of a configuration for ever, for no job: a load on another CPU during a training.

The argument is `training.config` as JSON. A line is printed when it has begun.
"""

import json
import sys
from typing import Final, NoReturn

import tensorflow as tf

from tfdist_trainer import programs

BATCH: Final = 128
TURN: Final = 100


def main() -> NoReturn:
    """Compute until it is killed."""
    program = programs.choose("image_classification", json.loads(sys.argv[1])).create()
    model = program.model()
    images = tf.zeros([BATCH, 28, 28, 1], tf.uint8)

    def take() -> tf.Tensor:
        total = tf.constant(0.0)
        for _ in tf.range(TURN):
            total += tf.reduce_sum(model(images, training=False))
        return total

    turn = tf.function(take)
    turn()
    print("begun", flush=True)
    while True:
        turn()


if __name__ == "__main__":
    main()
