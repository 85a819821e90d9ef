"""Rules for the search, the metric and the template of a sweep, next to the rules for its parameters and jobs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import messages
from tfdist.api.sweep import CleanTrials, SearchMethod, TFDistSweepSpec
from tfdist.api.sweep_resource import MAX_TRIALS
from tfdist.api.training import EvaluationMode
from tfdist.contract import Task
from tfdist.sweeps.values import grid_size, trial_count, trial_values
from tfdist.validation.errors import FieldError
from tfdist.validation.rules import broken_rules

_JOB: Final = "spec.template.spec"
MAX_VALUES: Final = 400_000
"""Largest size, in characters of JSON, of the values of all trials: the status has them, and etcd stores 1.5 MB."""


def search_problems(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    """Yield the errors of `search`; the template is not read."""
    match spec.search.method:
        case SearchMethod.GRID:
            yield from _grid_trials(spec)
        case SearchMethod.LIST:
            items = len(spec.search.trial_values or ())
            if spec.search.trial_values is not None:
                yield from _too_many(spec, items, f"the list has {messages.count(items, 'item')}")
            yield from _list_items(spec)


def size_problems(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    """Yield the error of a sweep whose results would not fit into its status; `search` must have no errors."""
    trials = trial_count(spec)
    listed = {id(value): len(json.dumps(value)) for parameter in spec.parameters for value in parameter.values or ()}
    size = sum(_size(trial_values(spec, trial), listed) for trial in range(trials))
    if size > MAX_VALUES:
        fact = (
            f"the values of {messages.count(trials, 'trial')} have {size} characters of JSON, at most {MAX_VALUES} fit"
        )
        text = f"{fact} into the status; use fewer trials, or shorter values, such as names of files"
        yield FieldError("spec.parameters", messages.forbidden(text))


def _size(values: Mapping[str, Any], listed: Mapping[int, int]) -> int:
    """Return the size of the JSON of the values of a trial; `listed` gives the size of listed values by identity."""
    sizes = [len(f'"{name}": ') + (listed.get(id(value)) or len(json.dumps(value))) for name, value in values.items()]
    return len("{}") + sum(sizes) + len(", ") * (len(sizes) - 1)


def template_problems(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    """Yield the errors of the metric, of early stopping, and of fields of the template that the sweep has itself."""
    job = spec.template.spec
    if job.task is not Task.TRAIN:
        text = f"task {job.task} has no training to compare; use task Train"
        yield FieldError(f"{_JOB}.task", messages.forbidden(text))
    if job.run_policy.suspend:
        text = "the sweep suspends its jobs; remove it, and set spec.suspend of the sweep"
        yield FieldError(f"{_JOB}.runPolicy.suspend", messages.forbidden(text))
    if job.run_policy.ttl_seconds_after_finished is not None:
        text = "the sweep deletes its jobs; remove it, and see cleanTrials and ttlSecondsAfterFinished of the sweep"
        yield FieldError(f"{_JOB}.runPolicy.ttlSecondsAfterFinished", messages.forbidden(text))
    if spec.metric_name is None:
        yield from _without_metric(spec)
    yield from _early_stopping(spec)


def _without_metric(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    if spec.search.method is not SearchMethod.LIST:
        text = "the trials are compared by it, and the template has no evaluation; set the name of a metric"
        yield FieldError("spec.metric", messages.required(text))
        return
    compares = {
        "earlyStopping": spec.early_stopping is not None,
        "targetValue": spec.target_value is not None,
        "keepBest": spec.keep_best > 1,
        "cleanTrials": spec.clean_trials is CleanTrials.ALL_BUT_BEST,
    }
    for field in (name for name, is_set in compares.items() if is_set):
        text = f"{field} compares the trials by a metric; set metric, or remove {field}"
        yield FieldError(f"spec.{field}", messages.forbidden(text))


def _early_stopping(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    if spec.early_stopping is None:
        return
    evaluation = spec.template.spec.evaluation
    if evaluation is not None and evaluation.mode is EvaluationMode.AFTER_TRAINING:
        fact = f"{spec.metric_name} is known after training only, by evaluation.mode AfterTraining"
        text = f"{fact}; use mode Continuous or Both, or remove earlyStopping"
        yield FieldError("spec.earlyStopping", messages.forbidden(text))
    if spec.early_stopping.resume and spec.template.spec.checkpoint is None:
        text = "a stopped trial resumes from its checkpoint; set checkpoint in the template, or remove resume"
        yield FieldError("spec.earlyStopping.resume", messages.forbidden(text))


def _grid_trials(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    if any(True for parameter in spec.parameters for _ in broken_rules(parameter, "")):
        return  # such as an empty range
    try:
        size = grid_size(spec.parameters)
    except ValueError:
        return  # `sweep_parameters` reports the parameter without a finite number of values
    fact = f"the grid has {messages.count(size, 'combination')}"
    yield from _too_many(spec, size, fact)
    if spec.search.trials is None and size > MAX_TRIALS:
        text = f"{fact}, and a sweep at most {MAX_TRIALS} trials; use fewer values, or set trials for the first ones"
        yield FieldError("spec.search.trials", messages.required(text))


def _too_many(spec: TFDistSweepSpec, available: int, fact: str) -> Iterator[FieldError]:
    trials = spec.search.trials
    if trials is not None and trials > available:
        text = f"{fact}; reduce trials, or remove it for all of them"
        yield FieldError("spec.search.trials", messages.invalid(trials, text))


def _list_items(spec: TFDistSweepSpec) -> Iterator[FieldError]:
    """Yield items of the list that lack a parameter, or that have a value for none."""
    names = [parameter.name for parameter in spec.parameters]
    for number, item in enumerate(spec.search.trial_values or ()):
        path = f"spec.search.list[{number}]"
        for name in names:
            if name not in item:
                text = f"the value of parameter {name}; add it, or remove the parameter"
                yield FieldError(messages.child_path(path, name), messages.required(text))
        for name in item:
            if name not in names:
                suggestion = messages.suggest(name, names)
                advice = f"did you mean {suggestion}?" if suggestion else "add it to parameters, or remove it"
                yield FieldError(messages.child_path(path, name), f"no parameter has this name; {advice}")
