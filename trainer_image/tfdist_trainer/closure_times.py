"""The workers' times of a step under parameter servers, of which the chief names a slow worker by `slow_member`.

The workers do not wait for each other, so a worker's time is the time of its closures: the input, the variables from
the parameter servers, the computation and the gradients. Closures finish at any time; a sample has the newest times.
"""

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from tfdist.contract import Role
from tfdist.contract_reports import SlowReplica
from tfdist_trainer import slow_member
from tfdist_trainer.slow_member import SlowMemberRule, slow_replica

LOST_SECONDS: Final = 60.0
"""Time after which a worker without a finished closure, which usually takes half a second, counts as lost."""

_FIGURES: Final = 2
"""Figures of a worker: own time and input wait of a step, in seconds."""


class ClosureTimes:
    """The times of the workers' closures.

    Args:
        workers: number of workers.
        clock: returns the time in seconds, which does not decrease.
    """

    def __init__(self, workers: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rule = SlowMemberRule()
        self._newest = np.zeros([workers, _FIGURES])
        """Times of a step; 0 for a worker without any."""
        self._ended_at = np.full(workers, -np.inf)
        """When the last closure of each worker ended, in seconds."""
        self._durations = np.zeros(workers)
        """Duration of the last closure of each worker, in seconds."""
        self._steps = np.zeros(workers)
        self._sums = np.zeros([workers, _FIGURES])
        """Times of `_steps` steps of each worker since the last sample, in seconds."""
        self._sampled_at = -np.inf

    def slow_replica(self) -> SlowReplica | None:
        """Return the slow worker, of which there is at most one."""
        slow = self._rule.named
        return None if slow is None else slow_replica(slow, Role.WORKER, slow.rank)

    def observe(self, worker: int, steps: int, seconds: float, input_wait: float) -> None:
        """Record a closure; the first one of a worker does not count, because it includes the start of its input.

        Args:
            worker: its index.
            steps: number of steps, at least 1.
            seconds: duration; 0 if it is not measured, and the closure is ignored.
            input_wait: seconds of it in which the worker waited for its input pipeline.
        """
        if seconds <= 0:
            return
        now, is_first = self._clock(), not self._durations[worker]
        self._ended_at[worker], self._durations[worker] = now, seconds
        # It includes the start of the input.
        if is_first:
            return
        self._steps[worker] += steps
        self._sums[worker] += seconds, input_wait
        if now - self._sampled_at >= slow_member.SAMPLE_SECONDS:
            self._sampled_at = now
            self._sample(now)

    def _sample(self, now: float) -> None:
        """Add the newest times of all workers to the rule, once each has some."""
        fresh = self._steps > 0
        self._newest[fresh] = self._sums[fresh] / self._steps[fresh, np.newaxis]
        self._steps[:], self._sums[:] = 0, 0
        if len(self._newest) == 1 or not self._newest[:, 0].all():
            return
        times = self._newest.copy()
        is_lost = now - self._ended_at > LOST_SECONDS + 2 * self._durations
        # A lost worker is not a slow one (ADR 48).
        times[is_lost] = np.median(times[~is_lost], axis=0)  # neutral for the rule: not slow
        self._rule.add(now, float(times[:, 0].max()), times)
