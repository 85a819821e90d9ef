"""Turns pydantic's errors into problems: the path as in YAML, what is expected, what was given, what to write."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import BaseModel

from tfdist.api.patterns import WORDS
from tfdist.validation.problems import Problem

_CONSTANTS: Final = {None: "nothing", True: "true", False: "false"}
_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][\w-]*")
_LONGEST: Final = 60
"""Characters of a given value that a message repeats: it stays a line of a terminal."""


def path_of(location: Iterable[str | int]) -> str:
    """Return a location as people write it: `spec.worker.env[0].name`, odd keys as `limits['nvidia.com/gpu']`."""
    return below("", *location).removeprefix(".")


def below(path: str, *location: object) -> str:
    """Return the path of what is at `location` below `path`."""
    for part in location:
        plain = isinstance(part, str) and _PLAIN_KEY.fullmatch(part)
        path += f".{part}" if plain else f"[{given(part)}]"
    return path


def given(value: object) -> str:
    """Return a value as a message repeats it, in YAML's words and shortened where it is long."""
    text = _CONSTANTS[value] if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def problem_of(error: Mapping[str, Any], model: type[BaseModel]) -> Problem:
    """Return the problem that one of pydantic's errors about `model` is."""
    location = [part for part in error["loc"] if part != "[key]"]
    kind, context = error["type"], {name: _plain(value) for name, value in error.get("ctx", {}).items()}
    if kind == "extra_forbidden":
        return Problem(path_of(location), _unknown(location, model))
    text = _SPECIAL[kind].format(**context) if kind in _SPECIAL else _lowered(error["msg"])
    if kind == "string_pattern_mismatch":
        text = WORDS.get(context["pattern"], text)
    if "[key]" in error["loc"]:
        text = f"the key is not well-formed: {text}"
    return Problem(path_of(location), f"{_meant(error)}{text}{_got(kind, error.get('input'))}")


def _meant(error: Mapping[str, Any]) -> str:
    """Return the choice that was meant, as far as that can be guessed."""
    if error["type"] not in {"enum", "literal_error"} or not isinstance(error.get("input"), str):
        return ""
    choices = {choice.lower(): choice for choice in re.findall("'([^']*)'", error["ctx"]["expected"])}
    near = difflib.get_close_matches(error["input"].lower(), choices, n=1)
    return f"did you mean {choices[near[0]]}? " if near else ""


def _got(kind: str, value: Any) -> str:
    """Return what was given: of what is too long its length, and nothing where the text says it."""
    if kind in {"missing", "duplicate"}:
        return ""
    return f"; got {len(value) if kind in {'string_too_long', 'too_long'} else given(value)}"


_SPECIAL: Final = {
    "bool_type": "write true or false, without quotes",
    "dict_type": "write a map of fields",
    "enum": "write {expected}",
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
    "string_too_long": "write at most {max_length} characters",
    "string_too_short": "write at least {min_length} character",
    "string_type": "write text, numbers and true or false in quotes",
    "too_long": "write at most {max_length} entries",
    "too_short": "write at least {min_length} entry, or remove the field",
}


def _plain(value: Any) -> Any:
    """Return a bound as people write it: 10, not 10.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


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
    here = _model_at(model, location)
    return [f.alias or name for name, f in here.model_fields.items()] if here else []


def takes_object(model: type[BaseModel], location: Sequence[str | int]) -> bool:
    """Return whether the field at `location` in `model` takes an object of its own, not a list of them."""
    parent = _model_at(model, location[:-1])
    fields = parent.model_fields.values() if parent else ()
    found = next((f.annotation for f in fields if f.alias == location[-1]), None)
    return any(map(_is_model, (found, *getattr(found, "__args__", ()))))


def _model_at(model: type[BaseModel], location: Sequence[str | int]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for part in location:
        if here is None or isinstance(part, int):
            continue
        here = next((_model_in(f.annotation) for f in here.model_fields.values() if f.alias == part), None)
    return here


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field's type holds: itself, in a list, or optional."""
    if _is_model(annotation):
        return cast("type[BaseModel]", annotation)
    inside = (_model_in(a) for a in getattr(annotation, "__args__", ()))
    return next((m for m in inside if m), None)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
