"""`status.history`: training progress over time, in a bounded number of points."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from tfdist.api.history_status import MAX_POINT_METRICS, MAX_POINTS, ProgressPoint
from tfdist.api.status import Progress
from tfdist.timestamps import parse_time

_DIGITS: Final = 6
_LONGEST_NAME: Final = 64
"""Metrics with longer names are left out: each point repeats them."""
_RESOLUTION_SECONDS: Final = 1.0
"""Times are stored to the second."""


def history_of(stored: Sequence[ProgressPoint], old: Progress, new: Progress, *, ended: bool) -> list[ProgressPoint]:
    """Return the points, with one of a new `status.progress` if that qualifies.

    Points are added at equal distances: with more than the most, every second older one is dropped, and later ones are
    added half as often. A restart from an earlier step keeps the points; they have times.

    Args:
        stored: `status.history` as stored.
        old: `status.progress` as stored.
        new: `status.progress` to write.
        ended: whether training has ended, so that this point is the last.
    """
    points = list(stored)
    if new.step is None or (old.step, old.reported_at) == (new.step, new.reported_at):
        return points
    point = _point(new)
    if point is None or (points and not ended and not _is_due(points, point)):
        return points
    if len(points) >= MAX_POINTS:
        points = points[::2]
    return [*points, point]


def _is_due(points: Sequence[ProgressPoint], point: ProgressPoint) -> bool:
    """Return whether the time since the last point is at least the median interval of the older points."""
    times = [parse_time(p.time).timestamp() for p in points[: MAX_POINTS // 2]]
    interval = median([later - earlier for earlier, later in pairwise(times)] or [0.0])
    elapsed = parse_time(point.time).timestamp() - parse_time(points[-1].time).timestamp()
    return elapsed > 0 and elapsed + _RESOLUTION_SECONDS >= interval


def _point(progress: Progress) -> ProgressPoint | None:
    """Return the point of `status.progress`; None if it has no time."""
    if progress.step is None or progress.reported_at is None:
        return None
    metrics = {name: value for name, value in (progress.metrics or {}).items() if len(name) <= _LONGEST_NAME}
    speed = progress.examples_per_second
    return ProgressPoint(
        step=progress.step,
        time=progress.reported_at,
        metrics={name: _rounded(metrics[name]) for name in sorted(metrics)[:MAX_POINT_METRICS]} or None,
        examples_per_second=None if speed is None else _rounded(speed),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
