"""Detects a gang that runs without progress, and its straggler: the member that the others wait for. Pure.

In synchronous training one member that stops, stops all. The straggler is the member that sends no heartbeat, else the
member at the lowest step. A process that reports nothing is never stalled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist_launch.slots import Slot

LEARNED_MOVES: Final = 5
LEARNED_FACTOR: Final = 10.0
LEARNED_MIN_SECONDS: Final = 60.0
SLOW_PHASE_SECONDS: Final = 300.0
"""Minimum deadline in a phase without steps: starting, rendezvous, compiling, saving, evaluating."""

_SLOW_PHASES: Final = frozenset(
    {
        Phase.STARTING,
        Phase.RENDEZVOUS,
        Phase.COMPILING,
        Phase.CHECKPOINTING,
        Phase.EVALUATING,
        Phase.FINISHED,
        Phase.UNKNOWN,
    }
)


@dataclass(slots=True)
class StallDetector:
    """The progress of the gang in the current round."""

    deadline: int | str | None
    """`LeaderSettings.progress_deadline_seconds`."""
    round: int = -1
    moves: int = 0
    """Times at which a report differed from the last one of its member."""
    moved_at: float = 0.0
    longest_gap_seconds: float = 0.0
    _marks: dict[int, tuple[object, ...]] = field(default_factory=dict)

    def stalled_seconds(self, slots: Sequence[Slot], number: int, now: float) -> float | None:
        """Return for how long round `number` has made no progress, if that exceeds the deadline."""
        if self.deadline is None:
            return None
        if number != self.round:
            self.round, self.moves, self.moved_at, self.longest_gap_seconds, self._marks = number, 0, now, 0.0, {}
        marks = {i: _mark(slot.report) for i, slot in enumerate(slots) if slot.active and slot.report is not None}
        if any(self._marks.get(rank) != mark for rank, mark in marks.items()):
            if self.moves:
                self.longest_gap_seconds = max(self.longest_gap_seconds, now - self.moved_at)
            self._marks, self.moves, self.moved_at = marks, self.moves + 1, now
        limit = self._limit(slots)
        return now - self.moved_at if limit is not None and marks and now - self.moved_at > limit else None

    def _limit(self, slots: Sequence[Slot]) -> float | None:
        """Return the deadline in seconds; None while it is being learned."""
        slow = any(slot.report.phase in _SLOW_PHASES for slot in slots if slot.active and slot.report)
        least = SLOW_PHASE_SECONDS if slow else 0.0
        if isinstance(self.deadline, int):
            return max(float(self.deadline), least)
        if self.moves < LEARNED_MOVES:
            return None
        return max(LEARNED_MIN_SECONDS, LEARNED_FACTOR * self.longest_gap_seconds, least)


def straggler(slots: Sequence[Slot]) -> Slot:
    """Return the member that the others wait for: one without a heartbeat, else the one at the lowest step."""

    def sort_key(slot: Slot) -> tuple[bool, int]:
        step = slot.report.step if slot.report else None
        return bool(slot.heartbeat and slot.heartbeat.alive), -1 if step is None else step

    return min((slot for slot in slots if slot.active), key=sort_key)


def _mark(report: ProgressReport | None) -> tuple[object, ...]:
    if report is None:
        return ()
    saved, scored = report.last_checkpoint, report.evaluation
    return report.step, report.phase, saved.step if saved else None, scored.step if scored else None
