"""Validates a pod template, or a part of it, without an API server."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tfdist import messages
from tfdist.podspec.scalars import scalar_error
from tfdist.podspec.schema import Field, Type, type_named, types
from tfdist.podspec.unions import members_set, requires_member, union_members

Found = Iterator[tuple[str, str]]

_NULL: Final = "must not be null; set a value, or remove the field"
OVERLAY: Final = frozenset({"PodTemplateSpec", "PodSpec", "Container"})
"""Types whose required fields may come from another of the templates that are merged."""

_COMMON_VOLUMES: Final = "configMap, emptyDir, persistentVolumeClaim or secret"
_COMMON_TYPES: Final = ("Container", "PodSpec", "ObjectMeta")


def problems(value: Any, type_name: str, path: str, partial: AbstractSet[str] = frozenset()) -> Found:
    """Yield path and message of every error of `value`, any JSON, as a value of the type `type_name`.

    Args:
        value: the value.
        type_name: its type, such as `PodSpec`.
        path: path of the value.
        partial: types of overlays: their required fields may be absent, except the keys by which lists are merged.

    Raises:
        KeyError: a pod template has no such type.
    """
    return _value(value, Field(type_named(type_name).name), path, partial)


def _value(value: Any, field: Field, path: str, partial: AbstractSet[str]) -> Found:
    """Yield the errors of one value: of `field`, or of one of its items."""
    kind = types().get(field.type)
    if value is None:
        yield path, _NULL
    elif kind is None:
        text = scalar_error(value, field)
        if text:
            yield path, text
    elif isinstance(value, dict):
        yield from _object(value, kind, path, partial)
    else:
        yield path, messages.invalid(value, "must be an object")


def _object(value: dict[Any, Any], kind: Type, path: str, partial: AbstractSet[str]) -> Found:
    prefix = f"{path}." if path else ""
    for name, content in value.items():
        field = kind.fields.get(name)
        if field is None:
            yield _child(path, name), _unknown(name, kind)
        else:
            yield from _field(content, field, f"{prefix}{name}", partial)
    if kind.name not in partial:
        for name in kind.required:
            if name not in value:
                yield f"{prefix}{name}", messages.REQUIRED
    if union_members(kind.name):
        yield from _union(value, kind, path, partial)


def _field(value: Any, field: Field, path: str, partial: AbstractSet[str]) -> Found:
    if field.shape == "one" or value is None:
        yield from _value(value, field, path, partial)
    elif field.shape == "list":
        if isinstance(value, list):
            yield from _list(value, field, path, partial)
        else:
            yield path, messages.invalid(value, "must be a list")
    elif isinstance(value, dict):
        for name, content in value.items():
            yield from _value(content, field, _child(path, name), partial)
    else:
        yield path, messages.invalid(value, "must be an object")


def _list(items: list[Any], field: Field, path: str, partial: AbstractSet[str]) -> Found:
    for i, item in enumerate(items):
        yield from _value(item, field, f"{path}[{i}]", partial)
    if field.keys:
        yield from _keys(items, field, path, partial)


def _keys(items: list[Any], field: Field, path: str, partial: AbstractSet[str]) -> Found:
    """Yield items of a list without their merge key, and items with equal keys."""
    key, first = field.keys[0], dict[Any, int]()
    is_required = key in type_named(field.type).required and field.type not in partial
    for i, item in enumerate(items):
        identity = field.identity(item)
        if identity is None:
            if isinstance(item, dict) and key not in item and not is_required:
                yield f"{path}[{i}].{key}", messages.required("items of the list are merged by it")
        elif first.setdefault(identity, i) != i:
            parts = ", ".join(str(part) for part in identity if part is not None)
            yield f"{path}[{i}].{key}", messages.duplicate(parts, f"also in {path}[{first[identity]}]")


def _union(value: dict[Any, Any], kind: Type, path: str, partial: AbstractSet[str]) -> Found:
    """Yield a union with several members set, or with none."""
    options = union_members(kind.name)
    names = [name for name in members_set(value, kind.name) if value[name] != ""]
    if len(names) > 1:
        yield path, messages.forbidden(f"{' and '.join(names)} are mutually exclusive; keep one of them")
    # An unknown or null member has been reported already.
    elif (
        not names
        and requires_member(kind.name)
        and kind.name not in partial
        and kind.fields.keys() - options >= value.keys()
    ):
        usual = _COMMON_VOLUMES if kind.name == "Volume" else ", ".join(sorted(options))
        yield path, messages.required(f"set one of {usual}")


def _unknown(name: object, kind: Type) -> str:
    owner = next((type_name for type_name in _COMMON_TYPES if name in type_named(type_name).fields), None)
    advice = f"it belongs to {owner}, not to {kind.name}" if owner else f"{kind.name} has no such field, remove it"
    return messages.unknown_field(name, kind.fields, advice)


def _child(path: str, name: object) -> str:
    return messages.child_path(path, name).removeprefix(".")
