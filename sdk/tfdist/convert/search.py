"""Converts the search of an Experiment: parameters, algorithm, limits and early stopping."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from tfdist.api.sweep_parameters import SweepParameter
from tfdist.api.sweep_resource import MAX_TRIALS
from tfdist.convert.katib import Algorithm, ExperimentSpec, FeasibleSpace, Parameter
from tfdist.convert.result import AddNote, CannotConvert, Json
from tfdist.sweeps.values import grid_size
from tfdist.validation import FieldError

_ALGORITHM: Final = "spec.algorithm.algorithmName"
_STOPPING: Final = "spec.earlyStopping"
_KATIBS_PARALLELISM: Final = 3
_MEDIAN: Final = "medianstop"
_MIN_TRIALS: Final = 3
_START_STEP: Final = 4
_GRID: Final = "grid"
_RANDOM: Final = "random"
_WITH_MEMORY: Final = (
    "a sweep has no search that learns from earlier trials; use Random with earlyStopping.method Asha, or a study of "
    "Optuna that submits the jobs of its trials by tfdist.Client"
)
_REPLACED: Final = {
    "tpe": _WITH_MEMORY,
    "multivariate-tpe": _WITH_MEMORY,
    "bayesianoptimization": _WITH_MEMORY,
    "cmaes": _WITH_MEMORY,
    "sobol": "a sweep has no sequence that covers the ranges evenly; use Random with more trials, or Grid",
    "hyperband": "set earlyStopping.method Asha, whose minSteps is the number of training steps of the first rung",
}
"""What to use instead of an algorithm that becomes Random."""
_NORMAL: Final = {"normal": "Linear", "logNormal": "Log"}
_SCALES: Final = {"logUniform": "Log", "logNormal": "Log"}


def parameters(
    settings: list[Parameter], names: Mapping[str, str], variables: Mapping[str, str], add_note: AddNote
) -> list[Json]:
    """Return the parameters of the sweep, each with its variable.

    Args:
        settings: the parameters of the Experiment.
        names: the name in the sweep of each.
        variables: the variable of each.
        add_note: adds a note to the result.

    Raises:
        CannotConvert: values are missing or are no numbers.
    """
    problems: list[FieldError] = []
    result = []
    for index, parameter in enumerate(settings):
        path = f"spec.parameters[{index}]"
        if names[parameter.name] != parameter.name:
            add_note(f"{path}.name", f"becomes {names[parameter.name]}: a name may contain only letters, digits and _")
        head = {"name": names[parameter.name], "env": variables[parameter.name]}
        try:
            result.append(head | _values(parameter, f"{path}.feasibleSpace", add_note))
        except CannotConvert as error:
            problems += error.problems
    if problems:
        raise CannotConvert(problems)
    return result


def search(spec: ExperimentSpec, sweep_parameters: list[Json], add_note: AddNote) -> Json:
    """Return `search` and `parallelism` of the sweep.

    Args:
        spec: of the Experiment.
        sweep_parameters: the parameters of the sweep.
        add_note: adds a note to the result.

    Raises:
        CannotConvert: the algorithm has no counterpart.
    """
    name = spec.algorithm.algorithm_name
    if name not in {_RANDOM, _GRID, *_REPLACED}:
        text = f"{name or 'no algorithm'} has no counterpart; TFDistSweep has Random, Grid and List"
        raise CannotConvert([FieldError(_ALGORITHM, text)])
    if name in _REPLACED:
        add_note(_ALGORITHM, f"{name} becomes Random: {_REPLACED[name]}")
    fields: Json = {"method": "Grid" if name == _GRID else "Random"}
    fields |= _trials(spec, sweep_parameters, add_note)
    fields |= _seed(spec.algorithm, add_note)
    if spec.parallel_trial_count is None:
        add_note("spec.parallelTrialCount", f"{_KATIBS_PARALLELISM}, the default of Katib, is written")
    return {"search": fields, "parallelism": spec.parallel_trial_count or _KATIBS_PARALLELISM}


def early_stopping(settings: Algorithm | None, add_note: AddNote) -> Json:
    """Return `earlyStopping` of the sweep; empty without a counterpart.

    Raises:
        CannotConvert: a setting is not a whole number.
    """
    if settings is None:
        return {}
    path = f"{_STOPPING}.algorithmName"
    if settings.algorithm_name != _MEDIAN:
        add_note(path, f"{settings.algorithm_name} is dropped; a sweep has the methods Asha and Median")
        return {}
    minimum = _integer_setting(settings, "min_trials_required", _MIN_TRIALS)
    start = _integer_setting(settings, "start_step", _START_STEP)
    text = (
        f"becomes Median; start_step counts values that a trial has reported, minSteps counts training steps: write "
        f"the training step of value {start} for minSteps {start}. A stopped trial is suspended, and its result is "
        "its best value until then"
    )
    add_note(path, text)
    return {"earlyStopping": {"method": "Median", "minSteps": start, "minTrials": minimum}}


def number(text: str, path: str) -> int | float:
    """Return the number of a text; a whole number without a fraction is an integer.

    Raises:
        CannotConvert: it is none.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise CannotConvert([FieldError(path, f"{text!r} is not a number" if text else "required value")])
    return value


def _values(parameter: Parameter, path: str, add_note: AddNote) -> Json:
    """Return `values` or `range` of a parameter."""
    space = parameter.feasible_space
    match parameter.parameter_type:
        case "categorical":
            return {"values": list(space.values)}
        case "discrete":
            return {"values": [number(value, f"{path}.list[{index}]") for index, value in enumerate(space.values)]}
        case "int" | "double":
            return {"range": _range(space, path, add_note, integer=parameter.parameter_type == "int")}
    text = f"{parameter.parameter_type!r} is not one of double, int, discrete, categorical"
    raise CannotConvert([FieldError(f"{path.rpartition('.')[0]}.parameterType", text)])


def _range(space: FeasibleSpace, path: str, add_note: AddNote, *, integer: bool) -> Json:
    bounds: Json = {"min": number(space.min, f"{path}.min"), "max": number(space.max, f"{path}.max")}
    if space.step:
        bounds["step"] = number(space.step, f"{path}.step")
    elif integer:
        bounds["step"] = 1
    if space.distribution in _NORMAL:
        text = f"{space.distribution} becomes uniform on the scale {_NORMAL[space.distribution]}"
        add_note(f"{path}.distribution", f"{text}; use search.method List for other values")
    if scale := _SCALES.get(space.distribution):
        bounds["scale"] = scale
    return bounds


def _trials(spec: ExperimentSpec, sweep_parameters: list[Json], add_note: AddNote) -> Json:
    """Return `search.trials`; a grid has at most one for each combination."""
    path, trials = "spec.maxTrialCount", spec.max_trial_count
    if spec.algorithm.algorithm_name == _GRID:
        size = _combinations(sweep_parameters)
        return {} if trials is None or (size is not None and trials >= size) else {"trials": trials}
    if trials is None:
        add_note(path, f"an Experiment without it goes on until its goal; {MAX_TRIALS}, the most trials, is written")
    elif trials > MAX_TRIALS:
        add_note(path, f"{trials} became {MAX_TRIALS}, the most trials of a sweep")
    return {"trials": MAX_TRIALS if trials is None else min(trials, MAX_TRIALS)}


def _combinations(sweep_parameters: list[Json]) -> int | None:
    """Return the size of a grid; None if it has none, which the validation of the result reports."""
    try:
        return grid_size([SweepParameter.model_validate(parameter) for parameter in sweep_parameters])
    except (ValueError, ZeroDivisionError):
        return None


def _seed(algorithm: Algorithm, add_note: AddNote) -> Json:
    for name in _unused_settings(algorithm):
        add_note("spec.algorithm.algorithmSettings", f"{name} is dropped: it is a setting of Katib's algorithm")
    seed = algorithm.settings.get("random_state", "")
    return {"seed": int(seed)} if seed.isdecimal() else {}


def _unused_settings(algorithm: Algorithm) -> Iterator[str]:
    yield from (name for name in algorithm.settings if name != "random_state")


def _integer_setting(settings: Algorithm, name: str, default: int) -> int:
    text = settings.settings.get(name, str(default))
    if not text.isdecimal():
        path = f"{_STOPPING}.algorithmSettings"
        raise CannotConvert([FieldError(path, f"{name}: {text!r} is not a whole number")])
    return max(int(text), 1)
