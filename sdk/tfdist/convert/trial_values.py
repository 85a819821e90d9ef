"""Passes the values of an Experiment's parameters to the TFJob of a trial: variables instead of placeholders.

Katib replaces `${trialParameters.NAME}` in the text of the TFJob. A sweep sets a variable in every replica, and
Kubernetes expands `$(VARIABLE)` in the command, arguments and variables of a container.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tfdist.convert.katib import Parameter, TrialParameter
from tfdist.convert.result import CannotConvert, Json
from tfdist.convert.texts import Location, texts
from tfdist.convert.tfjob import MAIN_CONTAINER
from tfdist.messages import join_path
from tfdist.validation import FieldError

SPEC_PATH: Final = "spec.trialTemplate.trialSpec"

_PLACEHOLDER: Final = re.compile(r"\$\{trialParameters\.([^}]+)\}")
_REFERENCE_TO_TRIAL: Final = "${trialSpec."
_WORD_START: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHER: Final = re.compile(r"\W+", re.ASCII)
_CONTAINER_DEPTH: Final = 7
"""Length of the location of a container: `spec.tfReplicaSpecs.Worker.template.spec.containers[0]`."""


def parameter_names(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Return the name in the sweep of each parameter: a letter or `_`, then letters, digits and `_`; each once."""
    result: dict[str, str] = {}
    for parameter in parameters:
        name = _OTHER.sub("_", parameter.name).strip("_") or "parameter"
        name = f"_{name}" if name[0].isdigit() else name
        while name in result.values():
            name += "_"
        result[parameter.name] = name
    return result


def variables(names: Mapping[str, str]) -> dict[str, str]:
    """Return the variable of each parameter: `SWEEP_LEARNING_RATE` for `learningRate`, which no image has already."""
    result: dict[str, str] = {}
    for parameter, name in names.items():
        variable = f"SWEEP_{_WORD_START.sub('_', name).upper()}"
        while variable in result.values():
            variable += "_"
        result[parameter] = variable
    return result


def with_variables(
    trial_spec: Json, parameters: Sequence[TrialParameter], variables_by_name: Mapping[str, str]
) -> Json:
    """Return the TFJob of a trial with references to variables instead of placeholders.

    Args:
        trial_spec: the TFJob.
        parameters: the names of its placeholders, and the parameters that they refer to.
        variables_by_name: the variable of each parameter.

    Raises:
        CannotConvert: a placeholder has no parameter, or is at a place where Kubernetes expands no variable.
    """
    substitutions = {
        parameter.name: variables_by_name[parameter.reference]
        for parameter in parameters
        if parameter.reference in variables_by_name
    }
    problems = [*_unknown_references(parameters, variables_by_name), *_wrong_places(trial_spec, substitutions)]
    if problems:
        raise CannotConvert(problems)
    result: Json = _substitute(trial_spec, substitutions)
    return result


def used(trial_spec: Json, parameters: Sequence[TrialParameter]) -> frozenset[str]:
    """Return the parameters that the TFJob has placeholders of."""
    names = {name for _, text in texts(trial_spec) for name in _PLACEHOLDER.findall(text)}
    return frozenset(parameter.reference for parameter in parameters if parameter.name in names)


def _substitute(value: Any, substitutions: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: f"$({substitutions[match[1]]})", value)
    if isinstance(value, list):
        return [_substitute(item, substitutions) for item in value]
    if isinstance(value, dict):
        return {key: _substitute(item, substitutions) for key, item in value.items()}
    return value


def _unknown_references(
    parameters: Sequence[TrialParameter], variables_by_name: Mapping[str, str]
) -> Iterator[FieldError]:
    for index, parameter in enumerate(parameters):
        path = f"spec.trialTemplate.trialParameters[{index}].reference"
        if parameter.reference.startswith(_REFERENCE_TO_TRIAL):
            text = (
                "refers to the metadata of the trial, for which a sweep has no variable: a replica gets the number "
                "of its trial in TFDIST_TRIAL; remove the parameter, or use $(TFDIST_TRIAL)"
            )
            yield FieldError(path, text)
        elif parameter.reference not in variables_by_name:
            yield FieldError(path, f"spec.parameters has no parameter {parameter.reference!r}")


def _wrong_places(trial_spec: Json, substitutions: Mapping[str, str]) -> Iterator[FieldError]:
    mains = _main_containers(trial_spec)
    for location, text in texts(trial_spec):
        names = _PLACEHOLDER.findall(text)
        path = f"{SPEC_PATH}.{join_path(location)}"
        if names and not (location[:_CONTAINER_DEPTH] in mains and _expands(location[_CONTAINER_DEPTH:])):
            advice = (
                f"a placeholder is converted in command, args and values of env of the container {MAIN_CONTAINER} "
                "only: replace it by a value, and write the parameter of the sweep with field instead of env, such "
                "as field: worker.replicas"
            )
            yield FieldError(path, advice)
        elif missing := [name for name in names if name not in substitutions]:
            yield FieldError(path, f"spec.trialTemplate.trialParameters has no {missing[0]!r} with a known parameter")


def _main_containers(trial_spec: Json) -> set[Location]:
    """Return the locations of the containers that the variables of a sweep are set in."""
    return {
        place[:-1]
        for place, text in texts(trial_spec)
        if text == MAIN_CONTAINER and len(place) == _CONTAINER_DEPTH + 1 and place[-3::2] == ("containers", "name")
    }


def _expands(field: Location) -> bool:
    """Return whether Kubernetes expands variables in the text of a field of a container."""
    return field[:1] in {("command",), ("args",)} or (field[:1] == ("env",) and field[2:] == ("value",))
