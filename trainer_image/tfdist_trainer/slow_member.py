"""The rule that names a slow member of a gang, from the members' own times of a step. Pure: no clock.

The own time of a member is the duration of its step without the all-reduce, in which it waits for slower members. All
members have equal steps; their own times differ. A member is slow if the median of its own times exceeds the median of
the other members by `SLOW_FACTOR`, and by a relevant share of a step, for `HOLD_SECONDS`.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tfdist.contract import Role
from tfdist.contract_reports import SlowReplica

WINDOW_SECONDS: Final = 10.0
"""Age of the oldest sample in a median: shorter pauses of a member, such as its node's, do not change it."""
MIN_SAMPLES: Final = 5
"""Samples in a median, also if they are older than the window: steps may take longer than seconds."""
SAMPLE_SECONDS: Final = 0.5
"""Shortest time between two samples."""
MAX_SAMPLES: Final = round(WINDOW_SECONDS / SAMPLE_SECONDS) + 1
UPDATE_SECONDS: Final = 2.0
"""Shortest time between two computations of the medians: with 10,000 members one takes milliseconds."""

SLOW_FACTOR: Final = 1.5
"""Factor between the own times of a slow member and of the others: half the speed is 2."""
RECOVERED_FACTOR: Final = 1.25
"""A named member stays named while its factor is above this; another one replaces it if it is this much slower."""
RELEVANT_SHARE: Final = 0.1
"""Share of a step that a slow member adds at least: else the exchange dominates, and a faster member gains little."""
HOLD_SECONDS: Final = 8.0
"""Time for which the rule must apply to a member before it is named."""
RECOVERED_SECONDS: Final = 24.0
"""Time for which it must apply to none before the name is removed; longer, so that the name does not alternate."""


@dataclass(frozen=True, slots=True)
class SlowMember:
    """A member for which the others wait."""

    rank: int
    seconds: float
    """Its own time of a step, in seconds; the median of recent steps."""
    others_seconds: float
    """Median of the own times of the others, in seconds."""
    input_seconds: float
    """Time that it waits for its input in a step, in seconds; part of `seconds`."""


class SlowMemberRule:
    """Names at most one slow member, from samples in order of time."""

    def __init__(self) -> None:
        self.named: SlowMember | None = None
        """The slow member with its newest times; None if there is none."""
        self._samples: deque[tuple[float, float, npt.NDArray[np.float64]]] = deque(maxlen=MAX_SAMPLES)
        self._pending: int | None = None
        """Rank of the member that is to be named, or None for none, since `_pending_since`."""
        self._pending_since: float | None = None
        self._updated_at = -np.inf

    def add(self, now: float, step_seconds: float, times: npt.NDArray[np.float64]) -> None:
        """Add a sample, and update `named`.

        Args:
            now: time in seconds; does not decrease.
            step_seconds: duration of a step.
            times: own time and input wait of each member in a step in order of rank, seconds, [members, 2].
        """
        # Steps of milliseconds would fill the window with one moment.
        if self._samples and now - self._samples[-1][0] < SAMPLE_SECONDS:
            return
        self._samples.append((now, step_seconds, times))
        while len(self._samples) > MIN_SAMPLES and now - self._samples[0][0] > WINDOW_SECONDS:
            self._samples.popleft()
        if len(self._samples) >= MIN_SAMPLES and now - self._updated_at >= UPDATE_SECONDS:
            self._updated_at = now
            self._update(now)

    def _update(self, now: float) -> None:
        """Apply the rule to the medians of the samples."""
        step_seconds = float(np.median([seconds for _, seconds, _ in self._samples]))
        own, waits = np.median([times for _, _, times in self._samples], axis=0).T
        named = self.named.rank if self.named is not None else None
        candidate = self._slow(own, step_seconds, named)
        # Any doubt is over.
        if candidate == named:
            self._pending_since = None
        elif self._pending_since is None or candidate != self._pending:
            self._pending, self._pending_since = candidate, now
        elif now - self._pending_since >= (RECOVERED_SECONDS if candidate is None else HOLD_SECONDS):
            named, self._pending_since = candidate, None
        self.named = None
        if named is not None:
            others = _others(own, named)
            self.named = SlowMember(named, float(own[named]), others, float(waits[named]))

    def _slow(self, own: npt.NDArray[np.float64], step_seconds: float, named: int | None) -> int | None:
        """Return the rank of the slow member by these own times, [members]; None if there is none.

        Of two slow members it is the one that is named, unless the other one is much slower, or about to be named.
        """
        first = int(np.argmax(own))
        ranks = [rank for rank in (named,) if rank is not None and own[first] < own[rank] * RECOVERED_FACTOR]
        if named is None and self._pending is not None and self._pending_since is not None:
            ranks.append(self._pending)
        for rank in (*ranks, first):
            factor = RECOVERED_FACTOR if rank == named else SLOW_FACTOR
            others = _others(own, rank)
            if own[rank] > factor * others and own[rank] - others > RELEVANT_SHARE * step_seconds:
                return rank
        return None


def slow_replica(slow: SlowMember, role: Role, index: int) -> SlowReplica:
    """Return the report about `slow`, the replica with this role and index."""
    return SlowReplica(
        role=role,
        index=index,
        own_millis=1000 * slow.seconds,
        others_millis=1000 * slow.others_seconds,
        input_wait_millis=1000 * slow.input_seconds,
    )


def _others(own: npt.NDArray[np.float64], rank: int) -> float:
    """Return the median of the own times of all members but one, in seconds."""
    return float(np.median(np.delete(own, rank)))
