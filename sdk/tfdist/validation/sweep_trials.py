"""Applies the checks of jobs to the trials of a sweep, and moves their errors to the fields of the sweep.

Not every trial is parsed: the first one, and jobs with the ends of ranges and all listed values, at most `MAX_PARSED`,
and fewer if they are large.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfdist import messages
from tfdist.api.sweep import SearchMethod, TFDistSweep, TFDistSweepSpec
from tfdist.api.sweep_parameters import SweepParameter
from tfdist.api.sweep_resource import PARAMETERS_ENV
from tfdist.api.v1 import TFDistJob
from tfdist.sweeps.trial import job_with_values
from tfdist.sweeps.values import outer_values, trial_values
from tfdist.validation.errors import FieldError, are_counted
from tfdist.validation.parse import checked
from tfdist.validation.structure import MAX_SPEC_BYTES, json_bytes
from tfdist.validation.warnings import warnings

MAX_PARSED: Final = 32
"""Jobs that are parsed for a sweep: each takes a few milliseconds, and the API server waits for admission."""
MAX_PARSED_BYTES: Final = 2 * MAX_SPEC_BYTES
"""Of their specifications as JSON: a sweep takes at most three times as long as the largest job."""
_SHOWN_VALUES: Final = 3
_VARIABLE: Final = re.compile(r"(spec(?:\.\w+)?)\.env\[(\d+)\]")
_DIRECTORIES: Final = (
    ("checkpoint", "directory"),
    ("training", "export", "directory"),
    ("tensorBoard", "logDirectory"),
)
_OWN_PLACEHOLDERS: Final = ("{name}", "{uid}")

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial that is parsed: its values by parameter name, its job, and its item of the search's list."""

    values: Json
    job: dict[str, Any]
    item: int | None


def trial_problems(
    content: Json,
    sweep: TFDistSweep,
    skipped: Collection[int],
    pod_defaults: Json,
    *,
    programs: bool,
    max_bytes: int,
) -> list[FieldError]:
    """Return the errors of the jobs of a sweep.

    An error at or below the target of a parameter is one of that parameter, or of the list's item; any other is one of
    the template.

    Args:
        content: the JSON of the sweep.
        sweep: the sweep of `content`; its template is not read.
        skipped: indices of parameters that have errors, and are not set.
        pod_defaults: partial pod template of the installation.
        programs: as for `tfdist.validation.parse`.
        max_bytes: as for `tfdist.validation.parse`.
    """
    parameters = [candidate for index, candidate in enumerate(sweep.spec.parameters) if index not in skipped]
    reduced = sweep.model_copy(update={"spec": sweep.spec.model_copy(update={"parameters": parameters})})
    ignored_paths = [_job_path(sweep.spec.parameters[index]) for index in skipped]
    trials_by_problem: dict[FieldError, list[_Trial]] = {}
    reported: set[tuple[str, FieldError]] = set()
    parsed = 0
    for trial in _within_limit(_trials(content, reduced)):
        parsed += 1
        for problem in _job_problems(trial.job, pod_defaults, programs=programs, max_bytes=max_bytes):
            if any(_is_at_or_below(problem.path, path) for path in ignored_paths):
                continue
            sweep_problem, parameter = _at_sweep_field(problem, trial, sweep, content)
            if parameter is not None:
                key = (parameter.name, _without_value(problem, parameter, trial))
                if key in reported:
                    continue
                reported.add(key)
            trials_by_problem.setdefault(sweep_problem, []).append(trial)
        if not are_counted(trials_by_problem):
            break  # the errors of other trials would not be reported
    return [_with_values(problem, of, parsed) for problem, of in trials_by_problem.items()]


def trial_warnings(sweep: TFDistSweep, pod_defaults: Json) -> Iterator[FieldError]:
    """Yield the warnings about a job of a valid sweep."""
    content = sweep.model_dump(mode="json", by_alias=True, exclude_unset=True)
    trial = next(_trials(content, sweep))
    job = TFDistJob.model_validate(trial.job)
    for warning in warnings(job, pod_defaults):
        yield _at_sweep_field(warning, trial, sweep, content)[0]


def _trials(content: Json, sweep: TFDistSweep) -> Iterator[_Trial]:
    """Yield the trials to parse, at most `MAX_PARSED`."""
    if sweep.spec.search.method is SearchMethod.LIST:
        items = enumerate(sweep.spec.search.trial_values or ())
        names = [parameter.name for parameter in sweep.spec.parameters]
        complete = [(number, item) for number, item in items if all(name in item for name in names)]
        for number, item in complete[:MAX_PARSED]:
            assignment = {name: item[name] for name in names}
            yield _Trial(assignment, job_with_values(content, sweep, number, assignment), number)
        return
    for values in _checked_values(sweep.spec):
        yield _Trial(values, job_with_values(content, sweep, 0, values), None)


def _within_limit(trials: Iterable[_Trial]) -> Iterator[_Trial]:
    """Yield the first trial, and as many more as have `MAX_PARSED_BYTES` together with it."""
    size = 0
    for number, trial in enumerate(trials):
        size += json_bytes(trial.job["spec"])
        if number and size > MAX_PARSED_BYTES:
            return
        yield trial


def _checked_values(spec: TFDistSweepSpec) -> list[Json]:
    """Return each outer value of each parameter at least once, up to the limit, and the values of a trial."""
    options = {parameter.name: outer_values(parameter) for parameter in spec.parameters}
    longest = max(map(len, options.values()), default=1)
    outer: list[Json] = [
        {name: candidates[min(row, len(candidates) - 1)] for name, candidates in options.items()}
        for row in range(longest)
    ]
    if spec.search.method is SearchMethod.GRID:
        return outer[:MAX_PARSED]  # begins with the first combination
    return [*outer[: MAX_PARSED - 1], trial_values(spec, 0)]


def _job_problems(job: dict[str, Any], pod_defaults: Json, *, programs: bool, max_bytes: int) -> Iterator[FieldError]:
    """Yield the errors of a job's specification; its metadata come from the sweep."""
    yield from _shared_directories(job["spec"])
    _, problems = checked(job, pod_defaults, programs=programs, max_bytes=max_bytes)
    yield from (problem for problem in problems if not problem.path.startswith("metadata"))


def _shared_directories(spec: Json) -> Iterator[FieldError]:
    """Yield directories to which all trials would write: a trial would resume from the checkpoints of another."""
    for location in _DIRECTORIES:
        value: Any = spec
        for name in location:
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, str) and not any(placeholder in value for placeholder in _OWN_PLACEHOLDERS):
            text = "must contain {name} or {uid}, so that each trial has a directory of its own"
            yield FieldError(messages.join_path(("spec", *location)), messages.invalid(value, text))


def _without_value(problem: FieldError, parameter: SweepParameter, trial: _Trial) -> FieldError:
    """Return an error that is the same for all values of a range; the error of a listed value names the value."""
    text = messages.format_value(trial.values[parameter.name])
    return FieldError(problem.path, problem.message.replace(text, "") if parameter.range else problem.message)


def _at_sweep_field(
    problem: FieldError, trial: _Trial, sweep: TFDistSweep, content: Json
) -> tuple[FieldError, SweepParameter | None]:
    """Return an error of a job as one of the sweep, and the parameter whose value it is about."""
    match = _VARIABLE.match(problem.path)
    variable = _variable_name(trial.job, match) if match else None
    if match and match[1] == "spec" and variable == PARAMETERS_ENV:
        return FieldError("spec.parameters", f"the values as {PARAMETERS_ENV}: {problem.message}"), None
    for index, parameter in enumerate(sweep.spec.parameters):
        of_variable = parameter.env is not None and parameter.env == variable
        if parameter.name in trial.values and (of_variable or _is_at_or_below(problem.path, _job_path(parameter))):
            place = f"variable {variable}" if of_variable else problem.path.removeprefix("spec.")
            text = f"value {messages.format_value(trial.values[parameter.name])} at {place}: {problem.message}"
            text += _integer_advice(parameter, problem.message)
            if trial.item is None:
                return FieldError(f"spec.parameters[{index}]", text), parameter
            path = messages.child_path(f"spec.search.list[{trial.item}]", parameter.name)
            return FieldError(path, text), parameter
    path = _template_variable(problem.path, match, variable, content) if match else problem.path
    return FieldError(f"spec.template.{path}", problem.message), None


def _integer_advice(parameter: SweepParameter, message: str) -> str:
    endless = parameter.range is not None and parameter.range.step is None
    return "; set range.step to 1" if endless and "must be an integer" in message else ""


def _variable_name(job: Json, match: re.Match[str]) -> Any:
    """Return the name of a variable by its place in a job."""
    items = _level(job["spec"], match[1])
    return items[int(match[2])].get("name") if int(match[2]) < len(items) else None


def _template_variable(path: str, match: re.Match[str], variable: Any, content: Json) -> str:
    """Return the path of a variable in the template, if the variables of the trial are not before it."""
    items = _level(content["spec"]["template"]["spec"], match[1])
    index = next((i for i, item in enumerate(items) if item.get("name") == variable), int(match[2]))
    return f"{match[1]}.env[{index}]{path[match.end() :]}"


def _level(spec: Json, path: str) -> list[Json]:
    """Return the variables of the job or of a role."""
    role = path.partition(".")[2]
    fields = spec.get(role) if role else spec
    items = fields.get("env") if isinstance(fields, Mapping) else None
    return items if isinstance(items, list) and all(isinstance(item, dict) for item in items) else []


def _with_values(problem: FieldError, trials: list[_Trial], parsed: int) -> FieldError:
    """Return an error of the template, with the parameter values that cause it."""
    if len(trials) == parsed or not problem.path.startswith("spec.template.") or not trials[0].values:
        return problem
    assignments = [f"{name} {messages.format_value(value)}" for name, value in trials[0].values.items()]
    ellipsis = ", ..." if len(assignments) > _SHOWN_VALUES else ""
    return FieldError(problem.path, f"{problem.message} (with {', '.join(assignments[:_SHOWN_VALUES])}{ellipsis})")


def _job_path(parameter: SweepParameter) -> str:
    """Return the path of a parameter's field in a job; no path begins with a variable's path."""
    return messages.join_path(("spec", *parameter.target)) if parameter.env is None else "variable"


def _is_at_or_below(path: str, field: str) -> bool:
    return path == field or path.startswith((f"{field}.", f"{field}["))
