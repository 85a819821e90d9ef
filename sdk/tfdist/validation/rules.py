"""Evaluates the rules between fields (`Check`), of the specification and of every object in it."""

import re
from collections.abc import Collection, Iterator
from typing import Any

from tfdist.api.base import ApiModel, Check
from tfdist.validation.problems import Problem
from tfdist.validation.wording import given


def broken_rules(model: ApiModel, path: str, unknown: Collection[str] = ()) -> Iterator[Problem]:
    """Yield every rule of `model`, at `path`, and of what is in it that does not hold.

    Args:
        model: a well-formed object.
        path: where it is.
        unknown: fields of the model, such as `worker.replicas`, whose content is not known because it is
            malformed: a rule that reads one of them is left out, for its answer would mislead.
    """
    for check in type(model).checks:
        if not _reads(check, unknown) and not check.holds(model):
            yield Problem(f"{path}{check.path}", f"{check.message}{_given(model, check.path)}")
    for name, field in type(model).model_fields.items():
        below = [place.removeprefix(f"{field.alias}.") for place in unknown if place.startswith(f"{field.alias}.")]
        yield from _inside(getattr(model, name), f"{path}.{field.alias}", below)


def _inside(value: Any, path: str, unknown: Collection[str] = ()) -> Iterator[Problem]:
    if isinstance(value, ApiModel):
        yield from broken_rules(value, path, unknown)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _inside(item, f"{path}[{i}]")


def _reads(check: Check, fields: Collection[str]) -> bool:
    """Say whether a rule reads one of the fields, or what is in one; of what is around it only the presence counts."""
    read = re.findall(r"self\.([\w.]+)", check.rule)
    return any(f"{place}.".startswith(f"{field}.") for place in read for field in fields)


def _given(model: ApiModel, path: str) -> str:
    """Return what the field at `path` holds, where that is short: `; got 3`."""
    value: Any = model
    for name in path.split(".")[1:]:
        found = (n for n, f in type(value).model_fields.items() if f.alias == name)
        value = getattr(value, next(found), None)
        if value is None:
            return ""
    return "" if isinstance(value, ApiModel) else f"; got {given(value if isinstance(value, int) else str(value))}"
