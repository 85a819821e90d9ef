"""The values of each trial: a function of the search, the parameters and the number of the trial, and nothing else.

So a controller that was killed gives a trial the same values again, without having stored them.
"""

import hashlib
import math
from fractions import Fraction
from typing import Any, Final

from tfdist.api.sweep import DEFAULT_TRIALS, SearchMethod, SearchSpec, TFDistSweepSpec
from tfdist.api.sweep_parameters import ParameterRange, Scale, SweepParameter

_MANTISSA_BITS: Final = 53
"""Of a double: more bits of a hash would round some of its values up to 1."""


def trial_count(spec: TFDistSweepSpec) -> int:
    """Return the number of trials of a sweep.

    Raises:
        ValueError: as for `grid_size`.
    """
    match spec.search.method:
        case SearchMethod.RANDOM:
            return spec.search.trials or DEFAULT_TRIALS
        case SearchMethod.GRID:
            available = grid_size(spec.parameters)
        case SearchMethod.LIST:
            available = len(spec.search.trial_values or ())
    return min(spec.search.trials or available, available)


def grid_size(parameters: list[SweepParameter]) -> int:
    """Return the number of combinations of the values of all parameters.

    Raises:
        ValueError: a parameter has no finite number of values.
    """
    return math.prod(_choices(parameter) for parameter in parameters)


def trial_values(spec: TFDistSweepSpec, trial: int) -> dict[str, Any]:
    """Return the values of a trial by parameter name. The number of the trial is from 0 to `trial_count(spec)` - 1.

    Raises:
        ValueError: as for `grid_size`.
    """
    match spec.search.method:
        case SearchMethod.RANDOM:
            return {parameter.name: _random_value(parameter, spec.search, trial) for parameter in spec.parameters}
        case SearchMethod.GRID:
            return _combination(spec.parameters, trial)
        case SearchMethod.LIST:
            return dict((spec.search.trial_values or ())[trial])


def outer_values(parameter: SweepParameter) -> list[Any]:
    """Return the values of a parameter that differ most: all listed ones, or the two ends of its range."""
    if parameter.values is not None:
        return list(parameter.values)
    bounds = parameter.range
    if bounds is None:
        return []
    if bounds.step is None:
        return [float(bounds.min), float(bounds.max)]  # as random numbers between them
    return [_choice(parameter, 0), _choice(parameter, _choices(parameter) - 1)]


def _combination(parameters: list[SweepParameter], trial: int) -> dict[str, Any]:
    """Return a combination of a grid, of which the last parameter varies fastest."""
    values: dict[str, Any] = {}
    remainder = trial
    for parameter in reversed(parameters):
        remainder, choice = divmod(remainder, _choices(parameter))
        values[parameter.name] = _choice(parameter, choice)
    return {parameter.name: values[parameter.name] for parameter in parameters}


def _random_value(parameter: SweepParameter, search: SearchSpec, trial: int) -> Any:
    """Return a random value, which other parameters do not change."""
    fraction = _uniform(f"{search.seed}/{trial}/{parameter.name}")
    bounds = parameter.range
    if bounds is None:
        return _choice(parameter, math.floor(fraction * _choices(parameter)))
    if bounds.step is None:
        return _interpolate(bounds, fraction, bounds.min, bounds.max)
    return _choice(parameter, _random_step(bounds, fraction, _choices(parameter)))


def _uniform(text: str) -> float:
    """Return a number of [0, 1) that is uniform over different texts."""
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return (number >> (64 - _MANTISSA_BITS)) / (1 << _MANTISSA_BITS)


def _interpolate(bounds: ParameterRange, fraction: float, low: float, high: float) -> float:
    """Return the number at a fraction of the way from `low` to `high`, on the scale of the range."""
    if bounds.scale is Scale.LOG:
        return min(max(low * math.pow(high / low, fraction), low), high)
    return min(low + fraction * (high - low), high)


def _random_step(bounds: ParameterRange, fraction: float, choices: int) -> int:
    """Return the number of the step that a random number of the range is nearest to."""
    if bounds.scale is Scale.LINEAR:
        return math.floor(fraction * choices)
    step = float(bounds.step or 1)
    # From half a step below the first to half a step above the last, so that these are not rarer than their neighbours.
    low = bounds.min - step / 2 if bounds.min > step / 2 else bounds.min
    number = _interpolate(bounds, fraction, low, bounds.min + (choices - 0.5) * step)
    return min(max(round((number - bounds.min) / step), 0), choices - 1)


def _choices(parameter: SweepParameter) -> int:
    """Return the number of values that a parameter has."""
    if parameter.values is not None:
        return len(parameter.values)
    if parameter.range is None or parameter.range.step is None:
        raise ValueError(f"parameter {parameter.name} has no finite number of values; set values, or range.step")
    low, high, step = (_exact(number) for number in (parameter.range.min, parameter.range.max, parameter.range.step))
    return (high - low) // step + 1


def _choice(parameter: SweepParameter, number: int) -> Any:
    """Return one of the values of a parameter."""
    if parameter.values is not None:
        return parameter.values[number]
    bounds = parameter.range
    assert bounds is not None  # noqa: S101  `_choices` has checked it
    assert bounds.step is not None  # noqa: S101
    low, step = _exact(bounds.min), _exact(bounds.step)
    value = low + number * step
    return int(value) if low.denominator == step.denominator == 1 else float(value)


def _exact(number: float) -> Fraction:
    """Return a number as it is written: three times 0.1 is 0.3."""
    return Fraction(str(number))
