"""The closures of an asynchronous gang: several steps each, in flight on the workers while the chief counts others.

`ClusterCoordinator` gives a closure to whichever worker is free. With more closures scheduled than there are workers,
a worker that has finished one starts the next at once, without a wait for the slowest.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist_trainer.step import StepStats

PER_WORKER: Final = 2
"""Closures in flight for each worker: one that it computes, and one that it computes next."""


@dataclass(frozen=True, slots=True)
class Closure:
    """Steps of one epoch that one worker takes."""

    epoch: int
    steps: int
    last_size: int
    """Examples of the last step; every other step has a full batch."""


class ClosureQueue:
    """Schedules closures on the workers, and returns their statistics in the order in which they finish.

    Args:
        coordinator: `tf.distribute.coordinator.ClusterCoordinator`.
        graph: see `TrainStep.graph`.
        iterator: its first argument, another one on each worker.
    """

    def __init__(self, coordinator: Any, graph: Callable[..., Any], iterator: object) -> None:
        self._coordinator = coordinator
        self._graph = graph
        self._iterator = iterator
        self._finished: SimpleQueue[tuple[Closure, Any, StepStats | tf.errors.OpError]] = SimpleQueue()
        self.in_flight = 0
        """Closures that are scheduled and whose statistics were not returned yet."""

    def schedule(self, closure: Closure) -> None:
        """Schedule `closure`.

        Raises:
            tf.errors.OpError: another closure has failed.
        """
        sizes = (tf.constant(closure.steps), tf.constant(closure.last_size))
        value = self._coordinator.schedule(self._graph, args=(self._iterator, *sizes))
        self.in_flight += 1
        # A daemon, since a closure that never ends must not keep a failed chief from its exit.
        threading.Thread(target=self._await, args=(closure, value), daemon=True).start()

    def next_finished(self) -> tuple[Closure, StepStats]:
        """Wait for a closure, and return it with its statistics in NumPy types.

        Raises:
            tf.errors.OpError: a closure has failed.
        """
        closure, value, result = self._finished.get()
        if isinstance(result, tf.errors.OpError):
            # Raises the error of a failed closure. Without one the worker was lost after its last step, before its
            # statistics arrived, and another worker has taken the steps again.
            self._coordinator.join()
            result = StepStats(*value.fetch())
        self.in_flight -= 1
        return closure, result

    def _await(self, closure: Closure, value: Any) -> None:
        try:
            self._finished.put((closure, value, StepStats(*value.fetch())))
        except tf.errors.OpError as error:
            self._finished.put((closure, value, error))


def added(parts: list[StepStats], workers: int) -> StepStats:
    """Return the statistics of several closures as those of one execution, the input wait averaged over `workers`."""
    return StepStats(
        sums=np.sum([stats.sums for stats in parts], axis=0),
        gradient_norm=parts[-1].gradient_norm,
        not_finite=sum(int(stats.not_finite) for stats in parts),
        done=sum(int(stats.done) for stats in parts),
        input_wait=sum(float(stats.input_wait) for stats in parts) / workers,
        exchange_wait=0.0,
    )
