"""Everything that is wrong with a pod template or a part of it, before any API server sees it."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tfdist.podspec.one_of import choices, chosen, must_choose
from tfdist.podspec.scalars import mistake
from tfdist.podspec.schema import Field, Type, type_named, types
from tfdist.podspec.words import given, meant, shortened

Found = Iterator[tuple[str, str]]

_EMPTY: Final = "empty: remove the line or give a value"
OVERLAY: Final = frozenset({"PodTemplateSpec", "PodSpec", "Container"})
"""Types of which a template that is laid over or under another need not hold everything."""

_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_USUAL_VOLUMES: Final = "configMap, emptyDir, persistentVolumeClaim or secret"
_WHERE_MOST_IS: Final = ("Container", "PodSpec", "ObjectMeta")


def problems(value: Any, type_name: str, path: str, partial: AbstractSet[str] = frozenset()) -> Found:
    """Yield every mistake in `value`, any JSON, as a value of the type `type_name`, such as `PodSpec`.

    A mistake is the path of its field, which begins with `path`, and what is wrong and what to do about it. The
    types named in `partial` are those of overlays: what Kubernetes requires of them may come from elsewhere, but
    for the key by which an item of a list is merged.

    Raises:
        KeyError: a pod template has no such type.
    """
    return _value(value, Field(type_named(type_name).name), path, partial)


def _value(value: Any, field: Field, path: str, partial: AbstractSet[str]) -> Found:
    """Yield the mistakes of one value: `field` as it is, or one item of it."""
    kind = types().get(field.type)
    if value is None:
        yield path, _EMPTY
    elif kind is None:
        text = mistake(value, field)
        if text:
            yield path, text
    elif isinstance(value, dict):
        yield from _object(value, kind, path, partial)
    else:
        yield path, f"must be an object, got {given(value)}"


def _object(value: dict[Any, Any], kind: Type, path: str, partial: AbstractSet[str]) -> Found:
    prefix = f"{path}." if path else ""
    for name, content in value.items():
        field = kind.fields.get(name)
        if field is None:
            yield _below(path, name), _unknown(name, content, kind)
        else:
            yield from _field(content, field, f"{prefix}{name}", partial)
    if kind.name not in partial:
        for name in kind.required:
            if name not in value:
                yield f"{prefix}{name}", "required, and absent"
    if choices(kind.name):
        yield from _choice(value, kind, path, partial)


def _field(value: Any, field: Field, path: str, partial: AbstractSet[str]) -> Found:
    if field.shape == "one" or value is None:
        yield from _value(value, field, path, partial)
    elif field.shape == "list":
        if isinstance(value, list):
            yield from _list(value, field, path, partial)
        else:
            yield path, f"must be a list, got {given(value)}"
    elif isinstance(value, dict):
        for name, content in value.items():
            yield from _value(content, field, _below(path, name), partial)
    else:
        yield path, f"must be an object, got {given(value)}"


def _list(items: list[Any], field: Field, path: str, partial: AbstractSet[str]) -> Found:
    for i, item in enumerate(items):
        yield from _value(item, field, f"{path}[{i}]", partial)
    if field.keys:
        yield from _keys(items, field, path, partial)


def _keys(items: list[Any], field: Field, path: str, partial: AbstractSet[str]) -> Found:
    """Yield items of which nothing says which they are, and items that say they are the same."""
    key, first = field.keys[0], dict[Any, int]()
    said = key in type_named(field.type).required and field.type not in partial
    for i, item in enumerate(items):
        identity = field.identity(item)
        if identity is None:
            if isinstance(item, dict) and key not in item and not said:
                yield f"{path}[{i}].{key}", "required, and absent: it tells the items of the list apart"
        elif first.setdefault(identity, i) != i:
            keys = zip(field.keys, identity, strict=True)
            same = ", ".join(f"{name} {shortened(str(part))!r}" for name, part in keys if part is not None)
            yield f"{path}[{i}].{key}", f"{same} is already in {path}[{first[identity]}]; keep one of them"


def _choice(value: dict[Any, Any], kind: Type, path: str, partial: AbstractSet[str]) -> Found:
    """Yield that a value names several of the fields that exclude each other, or none of them."""
    options = choices(kind.name)
    names = [name for name in chosen(value, kind.name) if value[name] != ""]
    if len(names) > 1:
        yield path, f"names {' and '.join(names)}, which exclude each other; keep one"
    # A misspelt or empty choice is a mistake that has been told already.
    elif (
        not names
        and must_choose(kind.name)
        and kind.name not in partial
        and kind.fields.keys() - options >= value.keys()
    ):
        usual = _USUAL_VOLUMES if kind.name == "Volume" else ", ".join(sorted(options))
        yield path, f"names nothing to use; add one of {usual}"


def _unknown(name: object, content: Any, kind: Type) -> str:
    text = f"unknown field (given {given(content)})"
    better = meant(name, kind.fields)
    if better:
        return f"{text}; did you mean {better}?"
    for other in _WHERE_MOST_IS:
        if name in type_named(other).fields:
            return f"{text}; it belongs to {other}, not to {kind.name}"
    return f"{text}; {kind.name} has no such field, remove it"


def _below(path: str, name: object) -> str:
    text = shortened(name) if isinstance(name, str) else given(name)
    if _PLAIN_KEY.fullmatch(text):
        return f"{path}.{text}" if path else text
    return f"{path}[{text}]"
