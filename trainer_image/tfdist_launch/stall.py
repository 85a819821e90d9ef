"""Finds a gang that runs and gets nowhere, and the member that the others wait for. Pure.

In synchronous training all stand still when one does. Who is behind shows no sign of life, or is at the lowest step.
A program that reports nothing is never called stalled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist_launch.gang import Seat

LEARNED_MOVES: Final = 5
LEARNED_FACTOR: Final = 10.0
LEARNED_LEAST_SECONDS: Final = 60.0
SLOW_SECONDS: Final = 300.0
"""Least patience with a phase that has no steps: starting, finding each other, compiling, saving, evaluating."""

_SLOW: Final = frozenset(
    {Phase.STARTING, Phase.RENDEZVOUS, Phase.COMPILING, Phase.CHECKPOINTING, Phase.EVALUATING, Phase.FINISHED}
)


@dataclass(slots=True)
class Watch:
    """How the gang moves in the round under way."""

    deadline: int | str | None
    """`LeaderSettings.progress_deadline_seconds`."""
    round: int = -1
    moves: int = 0
    moved_at: float = 0.0
    longest_gap_seconds: float = 0.0
    _marks: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def still_seconds(self, seats: Sequence[Seat], number: int, now: float) -> float | None:
        """Return for how long the gang has stood still, where that is too long."""
        if number != self.round:
            self.round, self.moves, self.moved_at, self.longest_gap_seconds, self._marks = number, 0, now, 0.0, {}
        marks = {seat.name: _mark(seat.report) for seat in seats if seat.active and seat.report is not None}
        if any(self._marks.get(name) != mark for name, mark in marks.items()):
            if self.moves:
                self.longest_gap_seconds = max(self.longest_gap_seconds, now - self.moved_at)
            self._marks, self.moves, self.moved_at = marks, self.moves + 1, now
        limit = self._limit(seats)
        return now - self.moved_at if limit is not None and marks and now - self.moved_at > limit else None

    def _limit(self, seats: Sequence[Seat]) -> float | None:
        """Return how long the gang may stand still; None for ever."""
        slow = any(seat.report.phase in _SLOW for seat in seats if seat.active and seat.report)
        least = SLOW_SECONDS if slow else 0.0
        if self.deadline is None:
            return None
        if not isinstance(self.deadline, str):
            return max(float(self.deadline), least)
        if self.moves < LEARNED_MOVES:
            return None
        return max(LEARNED_LEAST_SECONDS, LEARNED_FACTOR * self.longest_gap_seconds, least)


def behind(seats: Sequence[Seat]) -> Seat:
    """Return the seat that the others wait for: first one without a sign of life, then the lowest step."""

    def rank(seat: Seat) -> tuple[bool, int]:
        step = seat.report.step if seat.report else None
        return bool(seat.beat and seat.beat.alive), -1 if step is None else step

    return min((seat for seat in seats if seat.active), key=rank)


def _mark(report: ProgressReport | None) -> tuple[object, ...]:
    if report is None:
        return ()
    saved, scored = report.last_checkpoint, report.evaluation
    return report.step, report.phase, saved.step if saved else None, scored.step if scored else None
