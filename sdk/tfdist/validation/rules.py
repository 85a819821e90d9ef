"""Evaluates the rules between fields (`CrossFieldRule`) of the specification and of every object in it."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from tfdist.api.base import ApiModel, CrossFieldRule
from tfdist.messages import format_value
from tfdist.validation.errors import FieldError


def broken_rules(model: ApiModel, path: str, unknown: AbstractSet[str] = frozenset()) -> Iterator[FieldError]:
    """Yield every violated rule of `model` and of the objects in it.

    Args:
        model: a well-formed object.
        path: path of the object.
        unknown: fields of the model, such as `worker.replicas`, that are malformed and were left out: a rule that
            reads one of them is skipped, because its result would mislead.
    """
    for rule in type(model).cross_field_rules:
        if not _reads(rule, unknown) and not rule.python(model):
            yield FieldError(f"{path}{rule.path}", f"{rule.message}{_value_at(model, rule.path)}")
    inner_unknown: dict[str, set[str]] = {}
    for place in unknown:
        name, _, inner = place.partition(".")
        inner_unknown.setdefault(name, set()).add(inner)
    for name, field in type(model).model_fields.items():
        inner_fields = inner_unknown.get(field.alias or name)
        yield from _broken_inside(getattr(model, name), f"{path}.{field.alias}", inner_fields or frozenset())


def _broken_inside(value: Any, path: str, unknown: AbstractSet[str] = frozenset()) -> Iterator[FieldError]:
    if isinstance(value, ApiModel):
        yield from broken_rules(value, path, unknown)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _broken_inside(item, f"{path}[{i}]")


def _reads(rule: CrossFieldRule, fields: AbstractSet[str]) -> bool:
    """Return whether a rule reads one of the fields or a field below one; of a parent it reads only the presence."""
    paths = re.findall(r"self\.([\w.]+)", rule.cel) if fields else ()
    return any(".".join(path.split(".")[:end]) in fields for path in paths for end in range(1, path.count(".") + 2))


def _value_at(model: ApiModel, path: str) -> str:
    """Return the value of the field at `path`, if it is a scalar: `; got 3`."""
    value: Any = model
    for name in path.split(".")[1:]:
        names = (n for n, f in type(value).model_fields.items() if f.alias == name)
        value = getattr(value, next(names), None)
        if value is None:
            return ""
    if isinstance(value, ApiModel | list | dict):
        return ""
    return f"; got {format_value(value if isinstance(value, int) else str(value))}"
