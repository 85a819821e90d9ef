"""Well-formed part of an invalid specification: its other errors, and a job for the life cycle of running pods."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tfdist.api.training import EvaluationMode
from tfdist.api.v1 import ObjectMeta, TFDistJob, TFDistJobSpec
from tfdist.contract import Role, Task
from tfdist.validation.errors import FieldError
from tfdist.validation.rules import broken_rules
from tfdist.validation.structure import bounded

_FIELD: Final = re.compile(r"spec\.(\w+)(?:\.(\w+))?")
_ROLES: Final = (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR)
_MODES: Final = {
    (False, False): EvaluationMode.NONE,
    (True, False): EvaluationMode.CONTINUOUS,
    (False, True): EvaluationMode.AFTER_TRAINING,
    (True, True): EvaluationMode.BOTH,
}

Spec = dict[str, Any]
Place = tuple[str, ...]


def partial_job(manifest: Mapping[str, Any], problems: Iterable[FieldError], sizes: Mapping[str, int]) -> TFDistJob:
    """Return a job with the valid limits and policies of an invalid one, for its life cycle; it is not rendered.

    Args:
        manifest: the JSON of a TFDistJob with any content below `spec`.
        problems: errors of the manifest; their fields count as absent.
        sizes: number of replicas by role at the start of the job.
    """
    raw_spec = bounded(manifest).get("spec")
    spec: Spec = dict(raw_spec) if isinstance(raw_spec, Mapping) else {}
    matches = (match.groups() for match in (_FIELD.match(problem.path) for problem in problems) if match)
    spec = without(spec, {(field, inner) if field == "runPolicy" and inner else (field,) for field, inner in matches})
    meta = manifest["metadata"]
    metadata = ObjectMeta.model_construct(name=meta["name"], namespace=meta["namespace"], uid=meta["uid"])
    valid_spec = _valid(_with_sizes(spec, sizes)) or _valid(_with_sizes({}, sizes)) or TFDistJobSpec()
    return TFDistJob.model_construct(api_version="tfdist.dev/v1", kind="TFDistJob", metadata=metadata, spec=valid_spec)


def _valid(spec: Spec) -> TFDistJobSpec | None:
    """Return the specification without its malformed fields; None if that leaves none."""
    for _ in range(2):
        try:
            return TFDistJobSpec.model_validate(spec)
        except RecursionError:
            return None
        except ValidationError as error:
            spec = without(spec, {place_of(e["loc"], e["type"]) for e in error.errors(include_url=False)} - {()})
    return None


def _with_sizes(spec: Spec, sizes: Mapping[str, int]) -> Spec:
    """Return the specification with exactly the roles that the job was started with."""
    if not sizes:
        return spec
    if spec.get("task") == Task.EVALUATE:
        return spec | {"worker": _fields(spec, "worker") | {"replicas": sizes.get(Role.EVALUATION, 1)}}
    roles = {role: _fields(spec, role) | {"replicas": sizes[role]} for role in _ROLES if role in sizes}
    has_evaluation = Role.EVALUATION in sizes
    evaluation = _fields(spec, "evaluation") | {"mode": _MODES[Role.EVALUATOR in sizes, has_evaluation]}
    if has_evaluation:
        evaluation["replicas"] = sizes[Role.EVALUATION]
    other_fields = {name: value for name, value in spec.items() if name not in {*_ROLES, "evaluation"}}
    return other_fields | roles | ({"evaluation": evaluation} if has_evaluation or "evaluation" in spec else {})


def _fields(spec: Spec, name: str) -> Spec:
    fields = spec.get(name)
    return dict(fields) if isinstance(fields, Mapping) else {}


def check_valid_fields(spec: Any, details: Iterable[ErrorDetails]) -> Iterator[FieldError]:
    """Yield the violated rules of `spec` that read none of the malformed fields.

    Args:
        spec: the specification, of any content.
        details: pydantic's errors about the job.
    """
    if not isinstance(spec, dict):
        return
    places = {place_of(e["loc"][1:], e["type"]) for e in details if e["loc"][:1] == ("spec",)} - {()}
    for excluded in (places, {place[:1] for place in places}):
        try:
            model = TFDistJobSpec.model_validate(without(spec, excluded))
        except ValidationError:
            continue  # a required field is malformed
        yield from broken_rules(model, "spec", unknown={".".join(place) for place in excluded})
        return


def place_of(location: tuple[int | str, ...], kind: str) -> Place:
    """Return the field of a specification that one of pydantic's errors makes invalid.

    It is a list as a whole, and the parent of an absent field.
    """
    parts = location[:-1] if kind == "missing" else location
    names = itertools.takewhile(lambda part: isinstance(part, str) and part != "[key]", parts)
    return tuple(str(name) for name in names)


def without(fields: dict[Any, Any], places: AbstractSet[Place]) -> dict[Any, Any]:
    """Return `fields` without those at the places, each of which may be absent."""
    inner: dict[str, set[Place]] = {}
    for name, *rest in places:
        inner.setdefault(name, set()).add(tuple(rest))
    return {
        key: without(value, inner[key]) if key in inner else value
        for key, value in fields.items()
        if key not in inner or (isinstance(value, dict) and () not in inner[key])
    }
