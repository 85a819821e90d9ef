"""Programs for the trainer whose step takes longer on one member."""

import os
from typing import Any

import tensorflow as tf

from support.held_program import Line as HeldLine
from support.slow_steps import asleep, hurry, wait_in
from tfdist.contract import JOB_ENV


class Line(HeldLine):
    """Fits a line; the loss takes as long as the environment of the replica states, as on a slow machine."""

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return wait_in(super().loss(labels, predictions))


class Paced(HeldLine):
    """Fits a line; its examples take as long as the environment states, for each worker."""

    def dataset(self, split: Any, shard: Any) -> tf.data.Dataset:
        return asleep(super().dataset(split, shard), shard.index)


if JOB_ENV in os.environ:
    hurry()
