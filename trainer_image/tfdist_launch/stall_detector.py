"""Detects a gang that runs without progress, and its straggler: the member that the others wait for. Pure.

In synchronous training one member that stops, stops all. The straggler is the member that sends no heartbeat, else the
member that has done fewer steps than all others. A process that reports nothing is never stalled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tfdist.restarts.stall import behind, deadline_seconds, pauses_of, position_of, progress_of
from tfdist_launch.slots import Slot

LEARNED_MINIMUM_SECONDS: Final = 60.0
"""Minimum of `Auto`, half of the controller's: heartbeats arrive every second, and a round starts within seconds."""


@dataclass(slots=True)
class StallDetector:
    """The progress of the gang in the current round."""

    deadline: int | str | None
    """`LeaderSettings.progress_deadline_seconds`."""
    round: int = -1
    changed_at: float = 0.0
    longest_pause_seconds: float = 0.0
    """Before the first change, the time from the start of the round to the first report."""
    _progress: dict[int, tuple[object, ...]] = field(default_factory=dict)
    _changes: dict[int, int] = field(default_factory=dict)
    """Changes of the progress of each member."""

    @property
    def changes(self) -> int:
        """Changes of the member that has reported most of them: all members report each step."""
        return max(self._changes.values(), default=0)

    def stalled_seconds(self, slots: Sequence[Slot], number: int, now: float) -> float | None:
        """Return for how long round `number` has made no progress, if that exceeds the deadline."""
        if self.deadline is None:
            return None
        # A new round starts slowly: its own pauses count, and not the last one's.
        if number != self.round:
            self.round, self.changed_at, self.longest_pause_seconds = number, now, 0.0
            self._progress, self._changes = {}, {}
        reports = {i: slot.report for i, slot in enumerate(slots) if slot.active and slot.report is not None}
        self._update({rank: progress_of(report) for rank, report in reports.items()}, now)
        pauses = pauses_of(reports.values(), self.changes, self.longest_pause_seconds)
        limit = deadline_seconds(self.deadline, pauses, learned_minimum=LEARNED_MINIMUM_SECONDS)
        idle = now - self.changed_at
        # Without any report nothing is known to have stopped.
        return idle if reports and idle > limit else None

    def _update(self, progress: dict[int, tuple[object, ...]], now: float) -> None:
        """Count a change of the progress of a member; its first report of a round is none."""
        changed = [rank for rank, current in progress.items() if self._progress.get(rank) != current]
        if not changed:
            return
        pause = now - self.changed_at
        self.longest_pause_seconds = max(self.longest_pause_seconds, pause) if self.changes else pause
        for rank in changed:
            self._changes[rank] = self._changes.get(rank, -1) + 1
        self._progress, self.changed_at = progress, now


def straggler(slots: Sequence[Slot]) -> Slot | None:
    """Return the member that the others wait for: one without a heartbeat, else one that is behind; None if unknown."""
    active = [slot for slot in slots if slot.active]
    silent = next((slot for slot in active if not (slot.heartbeat and slot.heartbeat.alive)), None)
    late = behind({slot.name: position_of(slot.report) for slot in active if slot.report is not None})
    # Silence first: a process that has stopped may have been ahead of the others.
    return silent or next((slot for slot in active if slot.name == late), None)
