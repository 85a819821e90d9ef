"""A line that is fitted on parameter servers by a chief that prints how many closures were unfinished at most."""

import os
from typing import Any, Final

import tensorflow as tf

from support.breakpoint_program import Line as BreakpointLine
from tfdist.contract import JOB_ENV
from tfdist_trainer.data.files import Shard

UNFINISHED: Final = "unfinished closures:"


class Line(BreakpointLine):
    """The same program; this module counts."""


class Uneven(BreakpointLine):
    """The first worker has 3 of the 13 examples, and the other one has 10."""

    def dataset(self, split: Any, shard: Any) -> tf.data.Dataset:
        whole = super().dataset(split, Shard(0, 1))
        if shard.count == 1:
            return whole
        return whole.take(3) if shard.index == 0 else whole.skip(3)


def counted(schedule: Any) -> Any:
    """Return `schedule` of a coordinator, which prints each new highest number of unfinished closures."""
    most = 0

    def call(coordinator: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal most
        value = schedule(coordinator, *args, **kwargs)
        queue = coordinator._cluster.closure_queue
        unfinished = queue.inflight_closure_count + queue._queue.qsize()
        if unfinished > most:
            most = unfinished
            print(UNFINISHED, most, flush=True)
        return value

    return call


if JOB_ENV in os.environ:
    coordinator_class = tf.distribute.coordinator.ClusterCoordinator
    coordinator_class.schedule = counted(coordinator_class.schedule)
