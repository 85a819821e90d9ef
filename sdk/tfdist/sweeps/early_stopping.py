"""Which trials of a sweep stop early, by their metric at training steps.

`asha` is the stopping form of asynchronous successive halving (arXiv:1810.05934, section 3), `median` the rule of
Google Vizier (Golovin and others, KDD 2017, section 3.2.2).
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfdist.api.sweep import DEFAULT_MIN_TRIALS, DEFAULT_REDUCTION, SweepEarlyStopping

Rungs = Mapping[int, Mapping[int, float]]
"""Metric of each trial that has reached a rung, by the rung's step and the number of the trial."""


@dataclass(frozen=True, slots=True)
class Point:
    """The metric of a trial at a training step."""

    step: int
    value: float


def asha(
    options: SweepEarlyStopping, rungs: Rungs, latest: Mapping[int, Point], *, maximizes: bool
) -> tuple[dict[int, dict[int, float]], frozenset[int]]:
    """Return the rungs after the latest points of running trials, and the trials that stop.

    A trial is judged once at each rung, by its first point at or after the rung's step: it continues if it is among
    the best `1/reduction` of the trials that have reached the rung until then, or is the best of fewer. All arrivals
    of one call are compared with each other.

    Args:
        options: the rule.
        rungs: rungs so far.
        latest: latest point of each running trial by its number.
        maximizes: whether a larger value is better.
    """
    result = {step: dict(values) for step, values in rungs.items()}
    arrived: list[tuple[int, int]] = []
    for trial, point in sorted(latest.items()):
        for step in _rung_steps(options, point.step):
            values = result.setdefault(step, {})
            if trial not in values:
                values[trial] = point.value
                arrived.append((step, trial))
    reduction = options.reduction or DEFAULT_REDUCTION
    stopped = {trial for step, trial in arrived if trial not in _best(result[step], reduction, maximizes=maximizes)}
    return result, frozenset(stopped)


def median(
    options: SweepEarlyStopping, curves: Mapping[int, Sequence[Point]], running: frozenset[int], *, maximizes: bool
) -> frozenset[int]:
    """Return the running trials whose best value is worse than the median of the other trials' means.

    The mean of a trial is that of its values up to the step of the one that is judged; trials that have not reached
    that step are left out, and nothing stops before `minTrials` others have.

    Args:
        options: the rule.
        curves: points of each trial by its number, in order of their steps.
        running: numbers of the trials that may stop.
        maximizes: whether a larger value is better.
    """
    stopped = set()
    for trial in running:
        points = curves.get(trial, ())
        if not points or points[-1].step < options.min_steps:
            continue
        others = [points for number, points in curves.items() if number != trial]
        means = list(_means(others, points[-1].step))
        if len(means) < (options.min_trials or DEFAULT_MIN_TRIALS):
            continue
        best = max(_merit(point.value, maximizes=maximizes) for point in points)
        if best < _merit(statistics.median(means), maximizes=maximizes):
            stopped.add(trial)
    return frozenset(stopped)


def _rung_steps(options: SweepEarlyStopping, reached: int) -> Iterator[int]:
    """Yield the steps of the rungs that a trial at step `reached` has reached."""
    step, number = options.min_steps, 0
    while step <= reached and (options.max_rungs is None or number < options.max_rungs):
        yield step
        step, number = step * (options.reduction or DEFAULT_REDUCTION), number + 1


def _best(values: Mapping[int, float], reduction: int, *, maximizes: bool) -> frozenset[int]:
    """Return the best `1/reduction` of the trials, at least one; of equal ones those with smaller numbers."""
    order = sorted(values, key=lambda trial: (-_merit(values[trial], maximizes=maximizes), trial))
    finite = [trial for trial in order if math.isfinite(values[trial])]
    return frozenset(finite[: max(1, len(values) // reduction)])


def _means(curves: Sequence[Sequence[Point]], step: int) -> Iterator[float]:
    """Yield the mean of the finite values of each curve up to a step that it has reached."""
    for points in curves:
        values = [point.value for point in points if point.step <= step and math.isfinite(point.value)]
        if values and points[-1].step >= step:
            yield statistics.fmean(values)


def _merit(value: float, *, maximizes: bool) -> float:
    """Return a number that is larger if a value is better; a value that is not finite is worse than all others."""
    if not math.isfinite(value):
        return -math.inf
    return value if maximizes else -value
