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
    made: dict[str, str] = {}
    for parameter in parameters:
        name = _OTHER.sub("_", parameter.name).strip("_") or "parameter"
        name = f"_{name}" if name[0].isdigit() else name
        while name in made.values():
            name += "_"
        made[parameter.name] = name
    return made


def variables(names: Mapping[str, str]) -> dict[str, str]:
    """Return the variable of each parameter: `SWEEP_LEARNING_RATE` for `learningRate`, which no image has already."""
    made: dict[str, str] = {}
    for parameter, name in names.items():
        variable = f"SWEEP_{_WORD_START.sub('_', name).upper()}"
        while variable in made.values():
            variable += "_"
        made[parameter] = variable
    return made


def with_variables(trial_spec: Json, given: Sequence[TrialParameter], known: Mapping[str, str]) -> Json:
    """Return the TFJob of a trial with references to variables instead of placeholders.

    Args:
        trial_spec: the TFJob.
        given: the names of its placeholders, and the parameters that they refer to.
        known: the variable of each parameter.

    Raises:
        CannotConvert: a placeholder has no parameter, or is at a place where Kubernetes expands no variable.
    """
    found = {each.name: known[each.reference] for each in given if each.reference in known}
    problems = [*_unknown_references(given, known), *_wrong_places(trial_spec, found)]
    if problems:
        raise CannotConvert(problems)
    replaced: Json = _replaced(trial_spec, found)
    return replaced


def used(trial_spec: Json, given: Sequence[TrialParameter]) -> frozenset[str]:
    """Return the parameters that the TFJob has placeholders of."""
    names = {name for _, text in texts(trial_spec) for name in _PLACEHOLDER.findall(text)}
    return frozenset(each.reference for each in given if each.name in names)


def _replaced(value: Any, found: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: f"$({found[match[1]]})", value)
    if isinstance(value, list):
        return [_replaced(each, found) for each in value]
    if isinstance(value, dict):
        return {key: _replaced(each, found) for key, each in value.items()}
    return value


def _unknown_references(given: Sequence[TrialParameter], known: Mapping[str, str]) -> Iterator[FieldError]:
    for index, each in enumerate(given):
        path = f"spec.trialTemplate.trialParameters[{index}].reference"
        if each.reference.startswith(_REFERENCE_TO_TRIAL):
            text = (
                "refers to the metadata of the trial, which a sweep has no variable of: a replica has "
                "TFDIST_TRIAL, the number of its trial; remove the parameter, or use $(TFDIST_TRIAL)"
            )
            yield FieldError(path, text)
        elif each.reference not in known:
            yield FieldError(path, f"there is no parameter {each.reference!r} in spec.parameters")


def _wrong_places(trial_spec: Json, found: Mapping[str, str]) -> Iterator[FieldError]:
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
        elif missing := [name for name in names if name not in found]:
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
