"""The TFDistJob of each trial of a sweep: the template with the values of the trial at their targets."""

import copy
import json
from collections.abc import Container, Mapping
from typing import Any, Final

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_parameters import SweepParameter
from tfdist.api.sweep_resource import (
    PARAMETERS_ENV,
    SWEEP_API_VERSION,
    SWEEP_KIND,
    SWEEP_LABEL,
    TRIAL_ENV,
    TRIAL_LABEL,
    trial_name,
)
from tfdist.contract import MAIN_CONTAINER, Role
from tfdist.render.metadata import Manifest
from tfdist.render.names import inherited_labels
from tfdist.sweeps.values import trial_values

_LEVELS: Final = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)
"""Roles whose pod fields override the job's."""


def trial_manifest(manifest: Mapping[str, Any], sweep: TFDistSweep, trial: int) -> Manifest:
    """Return the TFDistJob of a trial, which the sweep owns.

    Args:
        manifest: the JSON of the sweep, whose template is used as it is stored: without the defaults of this version.
        sweep: the valid sweep of `manifest`.
        trial: number of the trial, from 0 to `trial_count(sweep.spec)` - 1.
    """
    return copy.deepcopy(job_with_values(manifest, sweep, trial, trial_values(sweep.spec, trial)))


def job_with_values(manifest: Mapping[str, Any], sweep: TFDistSweep, trial: int, values: Mapping[str, Any]) -> Manifest:
    """Return the TFDistJob of a trial with given values; it shares what it does not change with `manifest`.

    Args:
        manifest: the JSON of the sweep, with any content in its template.
        sweep: the sweep; its template is not read.
        trial: number of the trial, from 0.
        values: value of each parameter of `sweep` by its name.

    Raises:
        ValueError: a parent of a target is not an object; see `blocking_field`.
    """
    spec = dict(manifest["spec"]["template"]["spec"])
    variables = {TRIAL_ENV: str(trial), PARAMETERS_ENV: _json(values)}
    for parameter in sweep.spec.parameters:
        value = values[parameter.name]
        if parameter.env is not None:
            variables[parameter.env] = value if isinstance(value, str) else _json(value)
        else:
            _set(spec, parameter, value)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _metadata(sweep, trial),
        "spec": _with_variables(spec, variables),
    }


def blocking_field(spec: Mapping[str, Any], parameter: SweepParameter) -> tuple[str, ...]:
    """Return the location below `spec` of a list or scalar above the field of a parameter; () if there is none."""
    value: Any = spec
    for depth, name in enumerate(parameter.target[:-1] if parameter.env is None else ()):
        value = value.get(name)
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            return parameter.target[: depth + 1]
    return ()


def _metadata(sweep: TFDistSweep, trial: int) -> dict[str, Any]:
    name = sweep.metadata.name
    owner = {
        "apiVersion": SWEEP_API_VERSION,
        "kind": SWEEP_KIND,
        "name": name,
        "uid": sweep.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "name": trial_name(name, trial),
        "namespace": sweep.metadata.namespace,
        "labels": inherited_labels(sweep) | {SWEEP_LABEL: name, TRIAL_LABEL: str(trial)},
        "ownerReferences": [owner],
    }


def _json(value: Any) -> str:
    """Return the JSON of a value; the kubelet would expand `$(NAME)` in it, so that `$` is escaped."""
    return json.dumps(value, ensure_ascii=False).replace("$", r"\u0024")


def _set(spec: dict[str, Any], parameter: SweepParameter, value: Any) -> None:
    """Set a value at the field of a parameter, in copies of the objects above it, or in new ones.

    Raises:
        ValueError: a parent of the field is not an object.
    """
    if blocked := blocking_field(spec, parameter):
        raise ValueError(f"{'.'.join(blocked)} of the template is not an object, so it has no {parameter.target[-1]}")
    here = spec
    for name in parameter.target[:-1]:
        here[name] = dict(here.get(name) or {})
        here = here[name]
    here[parameter.target[-1]] = value


def _with_variables(spec: dict[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the specification with environment variables of all replicas, instead of any of the same names.

    They come first, so that other variables can refer to them, as in `run-$(TFDIST_TRIAL)`.
    """
    levels = {role: _without(spec[role], variables) for role in _LEVELS if role in spec}
    additions = [{"name": name, "value": value} for name, value in variables.items()]
    result = {**_without(spec, variables), **levels}
    previous = result.get("env")
    return result | {"env": [*additions, *(previous if isinstance(previous, list) else ())]}


def _without(fields: Any, variables: Container[str]) -> Any:
    """Return the pod fields of the job or of a role without variables of the container `tensorflow`.

    They may be set in the fields themselves, and in their template.
    """
    if not isinstance(fields, dict):
        return fields
    result = _without_variables(fields, variables)
    pod = _object(_object(fields.get("template")).get("spec"))
    containers = pod.get("containers")
    if not isinstance(containers, list):
        return result
    changed = [_without_variables(each, variables) if _has_name(each, _MAIN) else each for each in containers]
    return result | {"template": fields["template"] | {"spec": pod | {"containers": changed}}}


def _without_variables(holder: dict[str, Any], variables: Container[str]) -> dict[str, Any]:
    items = holder.get("env")
    if not isinstance(items, list):
        return holder
    return holder | {"env": [variable for variable in items if not _has_name(variable, variables)]}


_MAIN: Final = frozenset({MAIN_CONTAINER})


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _has_name(item: Any, names: Container[str]) -> bool:
    name = _object(item).get("name")
    return isinstance(name, str) and name in names
