"""Rules for the parameters of a sweep: their values, and the fields and variables that they set."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from tfdist import messages
from tfdist.api.pod_fields import GENERATED_VARIABLES
from tfdist.api.sweep import SearchMethod, TFDistSweepSpec
from tfdist.api.sweep_parameters import SweepParameter
from tfdist.sweeps.trial import blocking_field
from tfdist.validation.errors import FieldError
from tfdist.validation.rules import broken_rules

_RESERVED_PREFIX: Final = "TFDIST_"
_FORBIDDEN: Final[Mapping[str, str]] = {
    "env": "set the variable by env",
    "task": "every trial trains",
    "runPolicy.suspend": "the sweep suspends its jobs",
    "runPolicy.ttlSecondsAfterFinished": "the sweep deletes its jobs, see cleanTrials and ttlSecondsAfterFinished",
    "runPolicy.managedBy": "all jobs of a sweep have one controller",
    "evaluation.mode": "trials are compared only if all are evaluated at the same times",
    "evaluation.metric": "trials are compared by one metric",
    "evaluation.goal": "trials are compared by one metric and goal",
}
"""Fields that the trials must not differ in, each with the reason."""

Template = Mapping[str, Any]
Check = Callable[[TFDistSweepSpec, int, Template], Iterator[FieldError]]


def parameter_problems(spec: TFDistSweepSpec, template: Template) -> Iterator[tuple[int, FieldError]]:
    """Yield the errors of parameters, each with the index of its parameter.

    Args:
        spec: the sweep; its own template is not read.
        template: the raw specification of the job in its template, of any content.
    """
    for index in range(len(spec.parameters)):
        for check in (
            _own_rules,
            _without_values,
            _kinds,
            _endless_range,
            _variable,
            _field,
            _shared_target,
            _no_object,
        ):
            yield from ((index, problem) for problem in check(spec, index, template))


def _own_rules(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    """Yield the errors that the API server rejects too, such as an empty range, which has no values to check."""
    yield from broken_rules(spec.parameters[index], _path(index))


def _without_values(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    parameter = spec.parameters[index]
    if spec.search.method is not SearchMethod.LIST and parameter.values is None and parameter.range is None:
        yield FieldError(_path(index), messages.required("set values or range, or use search.method List"))


def _kinds(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    """Yield values of different kinds, such as numbers and strings: a typing error, and no axis of a plot has both."""
    kinds = list(dict.fromkeys(_kind(value) for value in spec.parameters[index].values or ()))
    if len(kinds) > 1:
        text = (
            f"the values are of different kinds ({' and '.join(kinds)}); use one kind, and quote text that is a number"
        )
        yield FieldError(f"{_path(index)}.values", text)


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "list" if isinstance(value, list) else "object"


def _endless_range(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    bounds = spec.parameters[index].range
    if spec.search.method is SearchMethod.GRID and bounds is not None and bounds.step is None:
        text = "a grid requires a finite number of values; set step, list values, or use search.method Random"
        yield FieldError(f"{_path(index)}.range.step", messages.required(text))


def _variable(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    name = spec.parameters[index].env
    if name is not None and (name.startswith(_RESERVED_PREFIX) or name in GENERATED_VARIABLES):
        text = f"{', '.join(GENERATED_VARIABLES)} and names that begin with {_RESERVED_PREFIX} are reserved"
        yield FieldError(f"{_path(index)}.env", messages.forbidden(f"{text}; use another name"))


def _field(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    """Yield a field that the trials must not differ in, or one that contains such a field."""
    parameter = spec.parameters[index]
    for path, reason in _FORBIDDEN.items() if parameter.env is None else ():
        place = tuple(path.split("."))
        if _is_at_or_below(parameter.target, place):
            text = f"a parameter must not set {path}: {reason}; remove the parameter"
        elif _is_at_or_below(place, parameter.target):
            text = f"a parameter must not set {path}: {reason}; use a field below {'.'.join(parameter.target)}"
        else:
            continue
        yield FieldError(f"{_path(index)}.field", messages.forbidden(text))
        return


def _shared_target(spec: TFDistSweepSpec, index: int, _: Template) -> Iterator[FieldError]:
    """Yield a parameter that sets the same field as one before it, or a field inside of the other's."""
    parameter = spec.parameters[index]
    for other in spec.parameters[:index]:
        if (parameter.env is None) is not (other.env is None):
            continue
        if parameter.target == other.target:
            text = messages.duplicate(
                _target_name(parameter), f"parameter {other.name} sets it too; remove one of them"
            )
        elif _is_at_or_below(parameter.target, other.target) or _is_at_or_below(other.target, parameter.target):
            names = f"{_target_name(parameter)} and {_target_name(other)} of parameter {other.name}"
            text = messages.forbidden(f"{names} contain one another; use fields of which neither contains the other")
        else:
            continue
        yield FieldError(_path(index), text)
        return


def _no_object(spec: TFDistSweepSpec, index: int, template: Template) -> Iterator[FieldError]:
    """Yield a field below a list or a scalar of the template."""
    parameter = spec.parameters[index]
    if field := blocking_field(template, parameter):
        place = messages.join_path(("spec", "template", "spec", *field))
        text = f"{place} is not an object, so it has no {parameter.target[-1]}; set {'.'.join(field)} as a whole"
        yield FieldError(f"{_path(index)}.field", text)


def _target_name(parameter: SweepParameter) -> str:
    return parameter.env or ".".join(parameter.target)


def _is_at_or_below(target: tuple[str, ...], place: tuple[str, ...]) -> bool:
    return target[: len(place)] == place


def _path(index: int) -> str:
    return f"spec.parameters[{index}]"
