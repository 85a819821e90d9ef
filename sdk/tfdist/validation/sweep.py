"""Parses a TFDistSweep and collects all its errors, each with the path of its field.

The trials are jobs, so that the checks of jobs apply to them: `sweep_trials`. The rules of sweeps are in
`sweep_parameters` and `sweep_rules`.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from tfdist.api.sweep import TFDistSweep
from tfdist.validation.errors import FieldError, ValidationFailed, first, limit_errors
from tfdist.validation.metadata import metadata_problems
from tfdist.validation.model_errors import field_error
from tfdist.validation.rules import broken_rules
from tfdist.validation.structure import MAX_SPEC_BYTES, nulls, too_deep, too_large
from tfdist.validation.sweep_parameters import parameter_problems
from tfdist.validation.sweep_rules import search_problems, size_problems, template_problems
from tfdist.validation.sweep_trials import trial_problems, trial_warnings

_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})
_TEMPLATE: Final = ("spec", "template", "spec")
_VALUES: Final = (("spec", "search", "list", ..., ...), ("spec", "parameters", ..., "values", ...))
"""Values of parameters, which may be objects."""
_LOWER_IS_BETTER: Final = ("loss", "error")
"""Ends of the names of metrics whose smaller values are better."""


def parse_sweep(
    manifest: Mapping[str, Any],
    pod_defaults: Mapping[str, Any] = _NO_DEFAULTS,
    *,
    programs: bool = True,
    max_bytes: int = MAX_SPEC_BYTES,
) -> TFDistSweep:
    """Return the sweep of a manifest, with every default applied.

    If fields outside the template are malformed, of the template only malformed fields are reported: its other errors
    depend on the values of the parameters.

    Args:
        manifest: the JSON of a TFDistSweep.
        pod_defaults: partial pod template of the installation, which every job overrides.
        programs: as for `tfdist.validation.parse`.
        max_bytes: as for `tfdist.validation.parse`, of the sweep and of the job of each trial.

    Raises:
        ValidationFailed: with the errors; no manifest raises another exception.
    """
    content = {key: value for key, value in manifest.items() if key != "status"}
    if too_much := list(too_large(content, max_bytes)) or list(too_deep(content)):
        raise ValidationFailed(too_much)
    sweep, problems = _parse_model(content)
    problems += first(metadata_problems(content.get("metadata")))
    problems += first(_nulls(content.get("spec")))
    readable = sweep or _without_template(content)
    if readable is not None:
        problems += first(_sweep_problems(content, readable, pod_defaults, programs=programs, max_bytes=max_bytes))
    if sweep is not None:
        problems += [*broken_rules(sweep.spec, "spec"), *template_problems(sweep.spec)]
    if sweep is not None and not problems:
        problems += size_problems(sweep.spec)
    if problems or sweep is None:
        raise ValidationFailed(_distinct(problems))
    return sweep


def sweep_warnings(sweep: TFDistSweep, pod_defaults: Mapping[str, Any] = _NO_DEFAULTS) -> list[FieldError]:
    """Return the warnings about a valid sweep, those about its jobs included.

    Args:
        sweep: a sweep returned by `parse_sweep`.
        pod_defaults: partial pod template of the installation, which every job overrides.
    """
    return limit_errors([*_goal(sweep), *trial_warnings(sweep, pod_defaults)], "warning")


def _parse_model(content: Mapping[str, Any]) -> tuple[TFDistSweep | None, list[FieldError]]:
    """Return the sweep if all its fields are well-formed, otherwise their errors."""
    try:
        return TFDistSweep.model_validate(content), []
    except ValidationError as error:
        details = error.errors(include_url=False)
        return None, list(first(_with_reason(field_error(detail, TFDistSweep)) for detail in details))


def _with_reason(problem: FieldError) -> FieldError:
    """Return an error of the model, with the reason of a limit that other objects do not have."""
    if problem.path != "metadata.name" or not problem.message.startswith("Too long"):
        return problem
    text = ", because the name of a trial's job appends the number of the trial; use a shorter name"
    return FieldError(problem.path, problem.message + text)


def _without_template(content: Mapping[str, Any]) -> TFDistSweep | None:
    """Return the sweep with an empty template; None if fields outside of the template are malformed."""
    spec = content.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        return None
    sweep, _ = _parse_model({**content, "spec": {**spec, "template": {"spec": {}}}})
    return sweep


def _sweep_problems(
    content: Mapping[str, Any], sweep: TFDistSweep, pod_defaults: Mapping[str, Any], *, programs: bool, max_bytes: int
) -> Iterator[FieldError]:
    """Yield the errors of the parameters, the search and the jobs of a sweep, whose own template is not read."""
    with_index = list(parameter_problems(sweep.spec, content["spec"]["template"]["spec"]))
    yield from (problem for _, problem in with_index)
    yield from search_problems(sweep.spec)
    faulty = frozenset(index for index, _ in with_index)
    yield from trial_problems(content, sweep, faulty, pod_defaults, programs=programs, max_bytes=max_bytes)


def _nulls(spec: Any) -> Iterator[FieldError]:
    """Yield the null fields outside of values, and of the job of the template, whose own checks report them."""
    if isinstance(spec, dict):
        yield from nulls(spec, ("spec",), TFDistSweep, _TEMPLATE, *_VALUES)


def _distinct(problems: list[FieldError]) -> Iterator[FieldError]:
    """Yield each error once; of several about a null field, the error of the API server's rule for all fields."""
    null_paths = {problem.path for problem in problems if problem.message.startswith("must not be null")}
    for problem in dict.fromkeys(problems):
        if problem.path not in null_paths or problem.message.startswith("must not be null"):
            yield problem


def _goal(sweep: TFDistSweep) -> Iterator[FieldError]:
    name = sweep.spec.metric_name or ""
    if sweep.spec.goal is None and sweep.spec.maximizes and name.lower().endswith(_LOWER_IS_BETTER):
        text = f"a larger {name} counts as better, because goal is not set; set goal: Minimize"
        yield FieldError("spec.goal", f"{text}, or goal: Maximize if that is intended")
