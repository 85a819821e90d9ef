"""Evaluates the rules between the sound fields of a specification of which other fields are malformed."""

import itertools
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from tfdist.api.v1 import TFDistJobSpec
from tfdist.validation.problems import Problem
from tfdist.validation.rules import broken_rules

Place = tuple[str, ...]


def rules_of_sound_fields(spec: Any, error: ValidationError) -> Iterator[Problem]:
    """Yield the broken rules of `spec` that read none of the fields that `error`, about the job, is about."""
    if not isinstance(spec, dict):
        return
    places = {_place(e) for e in error.errors() if e["loc"][:1] == ("spec",)} - {()}
    for malformed in (places, {place[:1] for place in places}):
        sound = spec
        for place in malformed:
            sound = _without(sound, place)
        try:
            parsed = TFDistJobSpec.model_validate(sound)
        except ValidationError:
            continue  # a field that is required was malformed
        yield from broken_rules(parsed, "spec", unknown={".".join(place) for place in malformed})
        return


def _place(error: Any) -> Place:
    """Return which field below the specification is malformed: a list as a whole, and the parent of what is absent."""
    parts = error["loc"][1:-1] if error["type"] == "missing" else error["loc"][1:]
    return tuple(itertools.takewhile(lambda part: isinstance(part, str) and part != "[key]", parts))


def _without(fields: dict[Any, Any], place: Place) -> dict[Any, Any]:
    name, *rest = place
    inner = fields.get(name)
    if rest and isinstance(inner, dict):
        return {**fields, name: _without(inner, tuple(rest))}
    return {key: value for key, value in fields.items() if key != name}
