"""Which trials of a sweep stop early, by their metric at training steps.

`asha` is the stopping form of asynchronous successive halving (arXiv:1810.05934, section 3), `median` the rule of
Google Vizier (Golovin and others, KDD 2017, section 3.2.2).
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    return result, frozenset(
        trial for step, trial in arrivals if trial not in _top_trials(options, result[step], maximizes=maximizes)
    )


def promoted(options: SweepEarlyStopping, rungs: Rungs, stopped: frozenset[int], *, maximizes: bool) -> list[int]:
    """Return the stopped trials that are now among the best `1/reduction` of their highest rung; of the highest first.

    Trials that have reached the rung since then may have been worse. The order in a rung is that of merit.
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
    return result, frozenset(
        trial for step, trial in arrivals if _is_below_median(options, result, step, trial, maximizes=maximizes)
    )


def _is_below_median(options: SweepEarlyStopping, rungs: Rungs, step: int, trial: int, *, maximizes: bool) -> bool:
    values_by_rung = [rungs[rung] for rung in sorted(rungs) if rung <= step]
    means = list(_means(values_by_rung, (other for other in rungs[step] if other != trial)))
    if len(means) < (options.min_trials or DEFAULT_MIN_TRIALS):
        return False
    best = max(_merit(values[trial], maximizes=maximizes) for values in values_by_rung if trial in values)
    return best < _merit(statistics.median(means), maximizes=maximizes)


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
) -> tuple[dict[int, dict[int, float]], list[tuple[int, int]]]:
    """Return the rungs with the latest points, and which of them are new: step and trial."""
    result = {step: dict(values) for step, values in rungs.items()}
    arrivals: list[tuple[int, int]] = []
    for trial, point in sorted(latest.items()):
        for step in _rung_steps(options, point.step):
            values = result.setdefault(step, {})
            if trial not in values:
                values[trial] = point.value
                arrivals.append((step, trial))
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


def _means(rungs: Sequence[Mapping[int, float]], trials: Iterable[int]) -> Iterator[float]:
    """Yield the mean of the finite values of each trial at the rungs."""
    for trial in trials:
        values = [
            values_by_trial[trial]
            for values_by_trial in rungs
            if trial in values_by_trial and math.isfinite(values_by_trial[trial])
        ]
        if values:
            yield statistics.fmean(values)


def _merit(value: float, *, maximizes: bool) -> float:
    """Return a number that is larger if a value is better; a value that is not finite is worse than all others."""
    if not math.isfinite(value):
        return -math.inf
    return value if maximizes else -value
