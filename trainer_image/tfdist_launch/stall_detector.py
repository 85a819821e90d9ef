"""Detects a gang that runs without progress, and its straggler: the member that the others wait for. Pure.

In synchronous training one member that stops, stops all. The straggler is the member that sends no heartbeat, else the
member at the lowest step. A process that reports nothing is never stalled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tfdist.restarts.stall import deadline_seconds, progress_of
from tfdist_launch.slots import Slot

LEARNED_MINIMUM_SECONDS: Final = 60.0
"""Minimum of `Auto`, half of the controller's: heartbeats arrive every second, and a round starts within seconds."""


@dataclass(slots=True)
class StallDetector:
    """The progress of the gang in the current round."""

    deadline: int | str | None
    """`LeaderSettings.progress_deadline_seconds`."""
    round: int = -1
    changes: int = 0
    """Times at which the progress of a member differed from before."""
    changed_at: float = 0.0
    longest_pause_seconds: float = 0.0
    _progress: dict[int, tuple[object, ...]] = field(default_factory=dict)

    def stalled_seconds(self, slots: Sequence[Slot], number: int, now: float) -> float | None:
        """Return for how long round `number` has made no progress, if that exceeds the deadline."""
        if self.deadline is None:
            return None
        if number != self.round:
            self.round, self.changed_at, self._progress = number, now, {}
            self.changes, self.longest_pause_seconds = 0, 0.0
        reports = {i: slot.report for i, slot in enumerate(slots) if slot.active and slot.report is not None}
        self._update({rank: progress_of(report) for rank, report in reports.items()}, now)
        phases, pause = {report.phase for report in reports.values()}, self.longest_pause_seconds
        limit = deadline_seconds(self.deadline, phases, self.changes, pause, learned_minimum=LEARNED_MINIMUM_SECONDS)
        idle = now - self.changed_at
        return idle if limit is not None and reports and idle > limit else None

    def _update(self, progress: dict[int, tuple[object, ...]], now: float) -> None:
        """Count a change of the progress of any member; the first report of a round is none."""
        if all(self._progress.get(rank) == current for rank, current in progress.items()):
            return
        if self._progress:
            self.changes += 1
            self.longest_pause_seconds = max(self.longest_pause_seconds, now - self.changed_at)
        self._progress, self.changed_at = progress, now


def straggler(slots: Sequence[Slot]) -> Slot:
    """Return the member that the others wait for: one without a heartbeat, else the one at the lowest step."""

    def sort_key(slot: Slot) -> tuple[bool, int]:
        step = slot.report.step if slot.report else None
        return bool(slot.heartbeat and slot.heartbeat.alive), -1 if step is None else step

    return min((slot for slot in slots if slot.active), key=sort_key)
