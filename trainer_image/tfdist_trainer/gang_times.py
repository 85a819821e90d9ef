"""The members' own times of a step, which they share in the exchange by which they agree on the next execution.

Each member measures its step without the all-reduce; only the chief applies the rule (`slow_member`) to all of them.
"""

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tfdist.contract_reports import SlowReplica
from tfdist_trainer.environment import GangMember
from tfdist_trainer.slow_member import SlowMemberRule, slow_replica

MAX_SHARED: Final = 512
"""Members that share their times in one exchange: 8 KiB. The members of a larger gang take turns."""

_FIGURES: Final = 2
"""Figures of a member: own time and input wait of a step, in seconds."""


class GangTimes:
    """One member's times, and at the chief the times of all members.

    Args:
        rank: of this member, from 0; 0 is the chief.
        size: number of members.
        clock: returns the time in seconds, which does not decrease.
    """

    def __init__(self, rank: int, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rank, self._size, self._clock = rank, size, clock
        self._rule = SlowMemberRule()
        self._first = 0
        """Rank of the first member that shares its times in the next exchange."""
        self._steps = 0
        self._sums = np.zeros(_FIGURES + 1)
        """Own time, input wait and duration of `_steps` steps, in seconds."""
        self._step_seconds = 0.0
        """Duration of a step in the figures that were shared last; 0 without any."""
        self._is_traced = False
        self._all = np.zeros([size, _FIGURES])

    def slow_replica(self, member: GangMember) -> SlowReplica | None:
        """Return the slow replica of the gang of `member`; None if there is none, and on all members but the chief."""
        slow = self._rule.named
        if slow is None:
            return None
        return slow_replica(slow, *member.place_of(slow.rank))

    def observe(self, steps: int, seconds: float, *, input_wait: float, exchange_wait: float) -> None:
        """Record an execution of `steps` steps; the first one does not count, because it includes tracing.

        Args:
            steps: number of steps, at least 1.
            seconds: duration of the execution.
            input_wait: seconds of it in which the member waited for its input pipeline.
            exchange_wait: seconds of it in the all-reduces; 0 if they are not measured, and the execution is ignored.
        """
        # The first execution includes tracing; without a measured wait the own time is not known.
        if self._is_traced and exchange_wait > 0:
            self._steps += steps
            self._sums += max(0.0, seconds - exchange_wait), input_wait, seconds
        self._is_traced = True

    def figures_to_share(self) -> list[float]:
        """Return the figures to add up over all members in the next exchange; equally many at all members."""
        if self._size == 1:
            return []
        figures = np.zeros([min(self._size, MAX_SHARED), _FIGURES])
        index = self._rank - self._first
        if 0 <= index < len(figures) and self._steps:
            figures[index] = self._sums[:_FIGURES] / self._steps
        return list(figures.ravel())

    def receive(self, sums: npt.NDArray[np.float64]) -> None:
        """Record the sums over all members of what `figures_to_share` returned, seconds, [figures]."""
        if self._size == 1:
            return
        figures = sums.reshape(-1, _FIGURES)[: self._size - self._first]
        end = self._first + len(figures)
        self._all[self._first : end] = figures
        if self._first <= self._rank < end:
            self._step_seconds = float(self._sums[-1]) / self._steps if self._steps else 0.0
            self._steps, self._sums = 0, np.zeros(_FIGURES + 1)
        self._first = end % self._size
        # Only when all members have taken their turn.
        if self._rank == 0 and self._first == 0 and self._step_seconds and self._all[:, 0].all():
            self._rule.add(self._clock(), self._step_seconds, self._all.copy())
