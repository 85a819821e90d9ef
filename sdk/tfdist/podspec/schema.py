"""Types of a pod template, from Kubernetes' OpenAPI document.

`hack/generate/crds/pod_schema.py` generates `pod_schema.json`, which is read on first use.
"""

import functools
import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_FILE: Final = pathlib.Path(__file__).with_name("pod_schema.json")
_MAX_KEY: Final = 2**63
"""Larger numbers are not valid keys, and Python does not convert the largest to a string."""

PRIMITIVES: Final = frozenset({"string", "boolean", "int32", "int64", "object", "quantity", "int-or-string", "time"})
"""Types without fields; all others are in `types()`."""


Identity = tuple[str | int | None, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field: one value, a list of them, or a map of them.

    `type` describes the value, or each item. `merged` lists merge by `key`, others are replaced. `keys` are the
    fields that identify an item in its list; they may be more than `key`.
    """

    type: str
    shape: str = "one"
    enum: tuple[str, ...] = ()
    default: str | None = None
    merged: bool = False
    retain_keys: bool = False
    key: str | None = None
    keys: tuple[str, ...] = ()

    def identity(self, item: object) -> Identity | None:
        """Return the identity of `item` in its list, or None if it lacks the first key.

        An absent key has its default: the protocol of a port is TCP.
        """
        if not self.keys or not isinstance(item, dict):
            return None
        fields = type_named(self.type).fields
        values = tuple(_scalar(item.get(key, fields[key].default)) for key in self.keys)
        return values if values[0] is not None else None


@dataclass(frozen=True, slots=True)
class Type:
    """A type: its fields by name, and those that Kubernetes requires."""

    name: str
    fields: Mapping[str, Field]
    required: tuple[str, ...]


@functools.cache
def types() -> Mapping[str, Type]:
    """Return all types by name, such as `PodSpec`."""
    content = json.loads(_FILE.read_bytes())
    return {name: _type(name, value) for name, value in content["types"].items()}


def type_named(name: str) -> Type:
    """Return the type `name`.

    Raises:
        KeyError: a pod template has no such type.
    """
    return types()[name]


def _type(name: str, content: Mapping[str, Any]) -> Type:
    fields = {field: _field(value) for field, value in content["fields"].items()}
    return Type(name, fields, tuple(content.get("required", ())))


def _scalar(value: object) -> str | int | None:
    return value if isinstance(value, str) or (isinstance(value, int) and abs(value) < _MAX_KEY) else None


@functools.cache
def _plain(type_name: str) -> Field:
    return Field(type_name)


def _field(content: str | Mapping[str, Any]) -> Field:
    if isinstance(content, str):
        return _plain(content)
    shape = next(iter(content))
    patch, key = content.get("patch", ""), content.get("key")
    return Field(
        type=content[shape],
        shape=shape,
        enum=tuple(content.get("enum", ())),
        default=content.get("default"),
        merged="merge" in patch,
        retain_keys="retainKeys" in patch,
        key=key,
        keys=tuple(content.get("keys", (key,) if key else ())),
    )
