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

from tfdist_trainer.autograph import graph
from tfdist_trainer.step import StepStats
from tfdist_trainer.step_clock import time_when
from tfdist_trainer.upstream.coordinator import per_worker_index

PER_WORKER: Final = 2
"""Closures in flight for each worker: one that it computes, and one that it computes next."""


@dataclass(frozen=True, slots=True)
class Closure:
    """Steps of one epoch that one worker takes."""

    epoch: int
    steps: int
    last_size: int
    """Examples of the last step; every other step has a full batch."""


@dataclass(frozen=True, slots=True)
class FinishedClosure:
    """A closure that a worker has computed."""

    closure: Closure
    stats: StepStats
    """In NumPy types."""
    worker: int
    """Index of the worker."""
    seconds: float
    """Duration on the worker; 0 if it is not measured."""


class ClosureQueue:
    """Schedules closures on the workers, and returns their statistics in the order in which they finish.

    Args:
        coordinator: `tf.distribute.coordinator.ClusterCoordinator`.
        steps: see `TrainStep.graph`.
        iterator: its first argument, another one on each worker.
        timed: whether to measure the closures.
    """

    def __init__(self, coordinator: Any, steps: Callable[..., Any], iterator: object, *, timed: bool) -> None:
        self._coordinator = coordinator
        self._steps = steps
        self._timed = timed
        self._graph = graph(self._run)
        self._worker_arguments = per_worker_index(coordinator), iterator
        self._finished: SimpleQueue[tuple[Closure, Any, FinishedClosure | tf.errors.OpError]] = SimpleQueue()
        self.in_flight = 0
        """Closures that are scheduled and whose statistics were not returned yet."""

    def schedule(self, closure: Closure) -> None:
        """Schedule `closure`.

        Raises:
            tf.errors.OpError: another closure has failed.
        """
        sizes = (tf.constant(closure.steps), tf.constant(closure.last_size))
        value = self._coordinator.schedule(self._graph, args=(*self._worker_arguments, *sizes))
        self.in_flight += 1
        # A daemon, since a closure that never ends must not block the exit of a failed chief.
        threading.Thread(target=self._await, args=(closure, value), daemon=True).start()

    def next_finished(self) -> FinishedClosure:
        """Wait for a closure, and return it.

        Raises:
            tf.errors.OpError: a closure has failed.
        """
        closure, value, result = self._finished.get()
        if isinstance(result, tf.errors.OpError):
            # Raises the error of a failed closure. Without one the worker was lost after its last step, before its
            # statistics arrived, and another worker has run the steps again.
            self._coordinator.join()
            result = _fetch(closure, value)
        self.in_flight -= 1
        return result

    def _await(self, closure: Closure, value: Any) -> None:
        try:
            self._finished.put((closure, value, _fetch(closure, value)))
        except tf.errors.OpError as error:
            self._finished.put((closure, value, error))

    def _run(self, worker: tf.Tensor, *arguments: Any) -> tuple[StepStats, tf.Tensor, tf.Tensor]:
        """Run a closure on a worker; return the statistics of its steps, the worker, and the seconds, float64 []."""
        if not self._timed:
            return self._steps(*arguments), worker, tf.constant(0.0, tf.float64)
        started_at = tf.timestamp()
        # The clock of the worker, read before the first step.
        with tf.control_dependencies([started_at]):
            stats = self._steps(*arguments)
        return stats, worker, time_when(stats) - started_at


def _fetch(closure: Closure, value: Any) -> FinishedClosure:
    """Wait for the `value` of a closure.

    Raises:
        tf.errors.OpError: the closure has failed.
    """
    stats, worker, seconds = value.fetch()
    return FinishedClosure(closure, StepStats(*stats), int(worker), float(seconds))


def add_stats(parts: list[StepStats], workers: int) -> StepStats:
    """Return the statistics of several closures as of one execution, the input wait averaged over `workers`."""
    return StepStats(
        sums=np.sum([stats.sums for stats in parts], axis=0),
        # Of the last step, as in one execution.
        gradient_norm=parts[-1].gradient_norm,
        not_finite=sum(int(stats.not_finite) for stats in parts),
        done=sum(int(stats.done) for stats in parts),
        input_wait=sum(float(stats.input_wait) for stats in parts) / workers,
        exchange_wait=0.0,
    )
