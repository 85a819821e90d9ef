"""`status.history`: training progress over time, in a bounded number of points."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, Final

from tfdist.api.history_status import MAX_POINT_METRICS, MAX_POINTS
from tfdist.timestamps import parse_time

Point = Mapping[str, Any]

_DIGITS: Final = 6
_LONGEST_NAME: Final = 64
"""Metrics with longer names are left out: each point repeats them."""
_RESOLUTION_SECONDS: Final = 1.0
"""Times are stored to the second."""


def history_of(stored: Sequence[Point], old: Mapping[str, Any], new: Mapping[str, Any], *, ended: bool) -> list[Point]:
    """Return the points with that of a new `status.progress`, if it is one.

    Points are added at equal distances: with more than the most, every second older one is dropped, and later ones are
    added half as often. A restart from an earlier step keeps the points; they have times.

    Args:
        stored: `status.history` as stored.
        old: `status.progress` as stored.
        new: `status.progress` to write.
        ended: whether training has ended, so that this point is the last.
    """
    points = list(stored)
    if "step" not in new or (old.get("step"), old.get("reportedAt")) == (new["step"], new.get("reportedAt")):
        return points
    point = _point(new)
    if point is None or (points and not ended and not _is_due(points, point)):
        return points
    if len(points) >= MAX_POINTS:
        points = points[::2]
    return [*points, point]


def _is_due(points: Sequence[Point], point: Point) -> bool:
    """Return whether so much time has passed since the last point as lies between two older ones."""
    times = [parse_time(p["time"]).timestamp() for p in points[: MAX_POINTS // 2]]
    usual = median([later - earlier for earlier, later in pairwise(times)] or [0.0])
    since = parse_time(point["time"]).timestamp() - parse_time(points[-1]["time"]).timestamp()
    return since > 0 and since + _RESOLUTION_SECONDS >= usual


def _point(progress: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the point of `status.progress`; None where it has no time."""
    if "reportedAt" not in progress:
        return None
    found: dict[str, Any] = {"step": progress["step"], "time": progress["reportedAt"]}
    metrics = {k: v for k, v in (progress.get("metrics") or {}).items() if len(k) <= _LONGEST_NAME}
    if metrics:
        found["metrics"] = {name: _rounded(metrics[name]) for name in sorted(metrics)[:MAX_POINT_METRICS]}
    if "examplesPerSecond" in progress:
        found["examplesPerSecond"] = _rounded(progress["examplesPerSecond"])
    return found


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
