"""Which trials of a sweep stop early, by their metric at training steps.

`asha` is the stopping form of asynchronous successive halving (arXiv:1810.05934, section 3), `median` the rule of
Google Vizier (Golovin and others, KDD 2017, section 3.2.2).
"""

import math
import statistics
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tfdist.api.sweep import DEFAULT_MIN_TRIALS, DEFAULT_REDUCTION, StoppingMethod, SweepEarlyStopping
from tfdist.api.sweep_resource import MAX_RUNGS

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
    """Return the rungs after the latest points of trials, and the trials that stop.

    A trial is judged once at each rung, by its first point at or after the rung's step: it continues if it is among
    the best `1/reduction` of the trials that have reached the rung until then, or is the best of fewer. All arrivals
    of one call are compared with each other.

    Args:
        options: the rule.
        rungs: rungs so far.
        latest: latest point of each trial by its number.
        maximizes: whether a larger value is better.
    """
    result, arrivals = _arrivals(options, rungs, latest)
    stopped: set[int] = set()
    for step, trials in arrivals.items():
        stopped.update(trials.difference(_top_trials(options, result[step], maximizes=maximizes)))
    return result, frozenset(stopped)


def promoted(options: SweepEarlyStopping, rungs: Rungs, stopped: frozenset[int], *, maximizes: bool) -> list[int]:
    """Return the stopped trials that are now among the best `1/reduction` of their highest rung; of the highest first.

    Trials that have reached the rung since then may have been worse. A rung is ordered by merit.
    """
    highest = {trial: step for step in sorted(rungs) for trial in rungs[step]}
    result = []
    for step in sorted(rungs, reverse=True):
        candidates = _top_trials(options, rungs[step], maximizes=maximizes)
        result += [trial for trial in candidates if trial in stopped and highest[trial] == step]
    return result


def median(
    options: SweepEarlyStopping, rungs: Rungs, latest: Mapping[int, Point], *, maximizes: bool
) -> tuple[dict[int, dict[int, float]], frozenset[int]]:
    """Return the rungs after the latest points of trials, and the trials that stop.

    The rungs are the first 32 multiples of `minSteps`. At each of them a trial stops if its best value so far is worse
    than the median of the other trials' means up to there; nothing stops before `minTrials` others have reached it.

    Args:
        options: the rule.
        rungs: rungs so far.
        latest: latest point of each trial by its number.
        maximizes: whether a larger value is better.
    """
    result, arrivals = _arrivals(options, rungs, latest)
    stopped: set[int] = set()
    histories: dict[int, list[float]] = {}
    for step, values in sorted(result.items()):
        for trial, value in values.items():
            histories.setdefault(trial, []).append(value)
        if step in arrivals:
            reached = {trial: histories[trial] for trial in values}
            stopped.update(_below_median(options, reached, arrivals[step], maximizes=maximizes))
    return result, frozenset(stopped)


def _below_median(
    options: SweepEarlyStopping, histories: Mapping[int, Sequence[float]], trials: Collection[int], *, maximizes: bool
) -> Iterator[int]:
    """Yield the trials at a rung that stop there, given the values up to it of each trial that reached it."""
    means = {trial: mean for trial, values in histories.items() if (mean := _mean(values)) is not None}
    ordered = sorted(means.values())
    for trial in trials:
        if len(means) - (trial in means) < (options.min_trials or DEFAULT_MIN_TRIALS):
            continue
        best = max(_merit(value, maximizes=maximizes) for value in histories[trial])
        if best < _merit(_median_without(ordered, means.get(trial)), maximizes=maximizes):
            yield trial


def _median_without(ordered: Sequence[float], excluded: float | None) -> float:
    """Return the median of sorted values without one of them, or of all; at least one value must remain."""
    place = len(ordered) if excluded is None else bisect_left(ordered, excluded)
    middle, is_odd = divmod(len(ordered) - (excluded is not None), 2)
    lower, upper = (ordered[i + (i >= place)] for i in (middle - 1 + is_odd, middle))
    return lower if is_odd else (lower + upper) / 2


def is_better(value: float, than: float | None, *, maximizes: bool) -> bool:
    """Return whether a value is better than another one; a finite value is better than none."""
    if than is None:
        return math.isfinite(value)
    return _merit(value, maximizes=maximizes) > _merit(than, maximizes=maximizes)


def order_of_merit(values: Mapping[int, float], *, maximizes: bool) -> list[int]:
    """Return the trials whose values are finite, best first; of equal ones those with smaller numbers."""
    finite = [trial for trial, value in values.items() if math.isfinite(value)]
    return sorted(finite, key=lambda trial: (-_merit(values[trial], maximizes=maximizes), trial))


def _arrivals(
    options: SweepEarlyStopping, rungs: Rungs, latest: Mapping[int, Point]
) -> tuple[dict[int, dict[int, float]], dict[int, set[int]]]:
    """Return the rungs with the latest points, and the trials that are new in each rung, by its step."""
    result = {step: dict(values) for step, values in rungs.items()}
    arrivals: dict[int, set[int]] = {}
    for trial, point in sorted(latest.items()):
        for step in _rung_steps(options, point.step):
            values = result.setdefault(step, {})
            if trial not in values:
                values[trial] = point.value
                arrivals.setdefault(step, set()).add(trial)
    return result, arrivals


def _rung_steps(options: SweepEarlyStopping, reached: int) -> Iterator[int]:
    """Yield the steps of the rungs that a trial at step `reached` has reached."""
    if options.method is StoppingMethod.MEDIAN:
        yield from range(options.min_steps, min(reached, options.min_steps * MAX_RUNGS) + 1, options.min_steps)
        return
    step, number = options.min_steps, 0
    while step <= reached and number < (options.max_rungs or MAX_RUNGS):
        yield step
        step, number = step * (options.reduction or DEFAULT_REDUCTION), number + 1


def _top_trials(options: SweepEarlyStopping, values: Mapping[int, float], *, maximizes: bool) -> list[int]:
    """Return the best `1/reduction` of the trials of a rung, at least one, best first."""
    number = max(1, len(values) // (options.reduction or DEFAULT_REDUCTION))
    return order_of_merit(values, maximizes=maximizes)[:number]


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of the finite values; None without any."""
    finite = list(filter(math.isfinite, values))
    if not finite:
        return None
    try:
        return statistics.fmean(finite)
    except OverflowError:  # of the sum
        return math.fsum(value / len(finite) for value in finite)


def _merit(value: float, *, maximizes: bool) -> float:
    """Return a number that is larger if a value is better; a value that is not finite is worse than all others."""
    if not math.isfinite(value):
        return -math.inf
    return value if maximizes else -value
