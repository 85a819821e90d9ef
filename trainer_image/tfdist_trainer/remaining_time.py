"""The remaining time of a training, estimated from when its steps were reported.

The steps of a few seconds do not show what a training takes: callbacks, validations and checkpoints come between
epochs. So the speed is taken from a window with at least one whole epoch, once one has ended, and at least half of the
time measured, so that it follows a change of speed.
"""

from typing import Final, NamedTuple

from tfdist.contract_reports import ProgressReport

FIRST_SECONDS: Final = 30.0
"""How long the steps before the first estimate take, until an epoch has passed or without epochs."""
_MAX_MARKS: Final = 64


class _Point(NamedTuple):
    step: int
    seconds: float


class RemainingTime:
    """Estimates the remaining time of the training of one process, whatever step it starts at."""

    def __init__(self) -> None:
        self._has_total = False
        self._last: _Point | None = None
        self._epoch: int | None = None
        self._is_new_epoch = False
        """Whether the next step is the first one of an epoch."""
        self._marks: list[_Point] = []
        """The first step measured, then the first one of each epoch; without epochs, any steps."""
        self._spacing = 0.0

    def observe(self, report: ProgressReport, now: float) -> float | None:
        """Return the estimated seconds until training ends.

        Args:
            report: the newest report.
            now: the time of the report, in monotonic seconds.

        Returns:
            None without a basis for an estimate, and if the total number of steps is unknown.
        """
        if self._has_total and not report.total_steps:  # cleared: another training begins
            self._start_again(None, report.epoch)
        self._has_total = bool(report.total_steps)
        if report.step is not None and report.step != (self._last.step if self._last else None):
            self._advance(_Point(report.step, now), report.epoch)
        if report.epoch != self._epoch:
            self._epoch, self._is_new_epoch = report.epoch, True
        if report.step is None or not report.total_steps:
            return None
        left = max(0, report.total_steps - report.step)
        step_seconds = self._seconds_per_step() if left else 0.0
        return None if step_seconds is None else left * step_seconds

    def _advance(self, point: _Point, epoch: int | None) -> None:
        """Record a step; the time up to the first one does not count: it includes tracing and compilation."""
        # Fewer steps than before: another training, or a restart from a checkpoint.
        if self._last is None or point.step < self._last.step:
            self._start_again(point, epoch)
            return
        is_first = not self._marks
        if is_first and epoch != self._epoch:  # reported once per epoch: the first whole one counts
            self._mark(self._last)
        self._last = point
        if is_first or self._is_new_epoch or epoch is None:
            self._mark(point)
            self._is_new_epoch = False

    def _start_again(self, point: _Point | None, epoch: int | None) -> None:
        self._last, self._epoch, self._is_new_epoch = point, epoch, False
        self._marks, self._spacing = [], 0.0

    def _mark(self, point: _Point) -> None:
        """Add a mark, if enough time has passed since the last one that their number stays limited."""
        marks = self._marks
        if marks and point.seconds - marks[-1].seconds < self._spacing:
            return
        marks.append(point)
        if len(marks) > _MAX_MARKS:
            del marks[1::2]
            self._spacing = (point.seconds - marks[0].seconds) / _MAX_MARKS

    def _seconds_per_step(self) -> float | None:
        """Return the duration of a step in the window; None without a basis."""
        last, marks = self._last, self._marks
        if last is None or not marks:
            return None
        measured = last.seconds - marks[0].seconds
        has_epoch = self._epoch is not None and len(marks) > 1
        if not has_epoch and measured < FIRST_SECONDS:
            return None
        halfway = last.seconds - measured / 2
        start = [mark for mark in marks[: max(1, len(marks) - 1)] if mark.seconds <= halfway][-1]
        steps = last.step - start.step
        return (last.seconds - start.seconds) / steps if steps else None
