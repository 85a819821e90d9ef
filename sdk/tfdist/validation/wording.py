"""Turns pydantic's errors into problems: the path as in YAML, what is expected, what was given, what to write."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from tfdist.api.patterns import WORDS
from tfdist.validation.problems import Problem

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w-]*")
_LONGEST: Final = 60
"""Characters of a given value that a message repeats: it stays a line of a terminal."""


def path_of(location: Iterable[str | int]) -> str:
    """Return a location as people write it: `spec.worker.env[0].name`, odd keys as `limits['nvidia.com/gpu']`."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}"
        else:
            text += f"[{part!r}]"
    return text.removeprefix(".")


def given(value: object) -> str:
    """Return a value as a message repeats it, shortened where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def problem_of(error: Mapping[str, Any], model: type[BaseModel]) -> Problem:
    """Return the problem that one of pydantic's errors about `model` is."""
    location = [part for part in error["loc"] if part != "[key]"]
    words = _SPECIAL.get(error["type"])
    if error["type"] == "extra_forbidden":
        return Problem(path_of(location), _unknown(location, model))
    context = error.get("ctx", {})
    text = words.format(**context) if words else _lowered(error["msg"])
    if error["type"] == "string_pattern_mismatch":
        text = WORDS.get(context["pattern"], text)
    if error["type"] == "missing":
        return Problem(path_of(location), text)
    if "[key]" in error["loc"]:
        text = f"the key is not well-formed: {text}"
    return Problem(path_of(location), f"{text}; got {given(error.get('input'))}")


_SPECIAL: Final = {
    "bool_type": "write true or false, without quotes",
    "dict_type": "write a map of fields",
    "enum": "write one of {expected}",
    "float_type": "write a number, without quotes",
    "greater_than": "write a number above {gt}",
    "greater_than_equal": "write a number of at least {ge}",
    "int_from_float": "write a whole number",
    "int_type": "write a whole number, without quotes",
    "less_than_equal": "write a number of at most {le}",
    "list_type": "write a list",
    "literal_error": "write {expected}",
    "missing": "required, and absent",
    "model_type": "write a map of fields",
    "string_pattern_mismatch": "does not match {pattern}",
    "string_too_long": "at most {max_length} characters",
    "string_too_short": "at least {min_length} character",
    "string_type": "write text, numbers and true or false in quotes",
    "too_long": "at most {max_length} entries",
    "too_short": "at least {min_length} entry, or remove the field",
}


def _lowered(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _unknown(location: Sequence[str | int], model: type[BaseModel]) -> str:
    """Return what to say about a field that does not exist: the one that was meant, as far as that can be guessed."""
    fields = fields_at(model, location[:-1])
    near = difflib.get_close_matches(str(location[-1]), fields, n=1)
    if near:
        return f"unknown field; did you mean {near[0]}?"
    kubectl = ".".join(["tfdistjob", *(p for p in location[:-1] if isinstance(p, str))])
    return f"unknown field; `kubectl explain {kubectl}` lists those there are"


def fields_at(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Return the names of the fields of the object at `location` in `model`; none where the models do not say."""
    here: type[BaseModel] | None = model
    for part in location:
        if here is None or isinstance(part, int):
            continue
        here = next((_model_in(f.annotation) for f in here.model_fields.values() if f.alias == part), None)
    return [f.alias or name for name, f in here.model_fields.items()] if here else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field's type holds: itself, in a list, or optional."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (_model_in(a) for a in getattr(annotation, "__args__", ()))
    return next((m for m in inside if m), None)
