"""Reads a TFDistJob and says everything that is wrong with it, all at once, each with the path of its field.

The API server has refused what the schema and CEL can see. What is checked here again is checked for jobs that
were stored under an older schema and for offline use; what is checked only here is what CEL cannot see.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from tfdist.api.v1 import TFDistJob
from tfdist.validation.depth import depth_problems
from tfdist.validation.metadata import metadata_problems
from tfdist.validation.problems import InvalidJob, Problem
from tfdist.validation.rules import broken_rules
from tfdist.validation.semantics import merged_problems
from tfdist.validation.sound import rules_of_sound_fields
from tfdist.validation.templates import template_problems
from tfdist.validation.wording import path_of, problem_of, takes_object

_NO_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})


def parse(manifest: Mapping[str, Any], pod_defaults: Mapping[str, Any] = _NO_DEFAULTS) -> TFDistJob:
    """Return the job that a manifest describes, with every default filled in.

    Args:
        manifest: the JSON of a TFDistJob.
        pod_defaults: the part of a pod template that an installation puts below those of all jobs.

    Raises:
        InvalidJob: with every problem found.
    """
    content = {k: v for k, v in manifest.items() if k != "status"}
    if too_deep := list(depth_problems(content)):
        raise InvalidJob(too_deep)
    try:
        job = TFDistJob.model_validate(content)
    except ValidationError as error:
        raise InvalidJob(_all_problems(content, error)) from None
    problems = [*_open_parts(content), *broken_rules(job.spec, "spec")]
    if not problems:
        problems = list(merged_problems(job, pod_defaults))
    if problems:
        raise InvalidJob(problems)
    return job


def defaulted(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest with every default filled in, as the API server stores it.

    Raises:
        InvalidJob: with every problem found.
    """
    return parse(manifest).model_dump(mode="json", by_alias=True, exclude_none=True)


def _all_problems(content: Mapping[str, Any], error: ValidationError) -> list[Problem]:
    """Return the problems of a manifest of which a part is malformed, those of the sound parts included."""
    found = {p.path: p for p in map(_of_model, error.errors())}
    for problem in _open_parts(content):
        found[problem.path] = problem  # says more than the model can
    for problem in rules_of_sound_fields(content.get("spec"), error):
        found.setdefault(problem.path, problem)
    return list(found.values())


def _of_model(error: Any) -> Problem:
    return problem_of(error, TFDistJob)


def _open_parts(content: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what the models do not see: nulls, metadata, and what is said in Kubernetes' own words."""
    yield from metadata_problems(content.get("metadata"))
    spec = content.get("spec")
    if not isinstance(spec, dict):
        return
    of_templates = list(template_problems(spec))
    told = {problem.path for problem in of_templates}
    yield from (problem for problem in _nulls(spec, ("spec",)) if problem.path not in told)
    yield from of_templates


_FREE: Final = ("spec", "training", "config")
"""Where null may mean something to a program."""


def _nulls(value: Any, location: tuple[Any, ...]) -> Iterator[Problem]:
    """Yield fields without a value: the API server drops them, and `chief:` alone is an easy mistake."""
    if location == _FREE:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if item is None:
            yield Problem(path_of((*location, key)), _empty((*location, key)))
        elif isinstance(item, dict | list):
            yield from _nulls(item, (*location, key))


def _empty(location: tuple[Any, ...]) -> str:
    remedy = "write {} for its defaults" if takes_object(TFDistJob, location) else "give a value"
    return f"empty, which counts as absent: {remedy}, or remove the line"
