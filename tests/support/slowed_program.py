"""Programs for the trainer whose step takes longer on one member."""

import os
from typing import Any, Final

import tensorflow as tf

from support.breakpoint_program import Line as BreakpointLine
from support.slow_steps import hurry, paced, wait_in
from tfdist.contract import JOB_ENV

REPETITIONS: Final = 100
"""Of the examples in an epoch, so that executions may take half a second."""


class Line(BreakpointLine):
    """Fits a line; the loss takes as long as the environment of the replica states, as on a slow machine."""

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        return wait_in(super().loss(labels, predictions))


class Paced(BreakpointLine):
    """Fits a line; its examples take as long as a file of the worker states."""

    def dataset(self, split: Any, shard: Any) -> tf.data.Dataset:
        return paced(super().dataset(split, shard).repeat(REPETITIONS), shard.index)


if JOB_ENV in os.environ:
    hurry()
