"""How two pod templates become one: a strategic merge, as `kubectl apply` does it."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.podspec.one_of import choices, chosen
from tfdist.podspec.schema import Field, Type, type_named, types

Json = dict[str, Any]


def merge(lower: Mapping[str, Any], higher: Mapping[str, Any], type_name: str) -> Json:
    """Return `lower` overlaid with `higher`, both (partial) values of the type `type_name`, such as `PodSpec`.

    Objects merge field by field. Lists that Kubernetes merges do so by their key (env by name, mounts by path,
    ports by number): what `lower` has keeps its place, what is new follows. All else of `higher` replaces. Of
    fields that exclude each other, such as the sources of a volume, those that `higher` names remain. Two ports
    of one number are told apart by protocol where both are named, which Kubernetes' own patches mix up.

    The result shares nothing with the inputs. Values that are not well-formed replace, and nothing is raised
    for them; `problems` finds them.

    Raises:
        KeyError: a pod template has no such type.
    """
    result: Json = _copy(_object(lower, higher, type_named(type_name)))
    return result


def _object(lower: Mapping[str, Any], higher: Mapping[str, Any], kind: Type) -> Json:
    excluded = choices(kind.name) - higher.keys() if chosen(higher, kind.name) else frozenset()
    result = {name: value for name, value in lower.items() if name not in excluded}
    for name, value in higher.items():
        field = kind.fields.get(name)
        result[name] = _field(result[name], value, field) if field and name in result else value
    return result


def _field(lower: Any, higher: Any, field: Field) -> Any:
    if isinstance(lower, dict) and isinstance(higher, dict):
        if field.shape == "map":
            return lower | higher
        kind = types().get(field.type)
        return _object(lower, higher, kind) if kind and field.shape == "one" else higher
    if isinstance(lower, list) and isinstance(higher, list) and field.merged:
        return _list(lower, higher, field)
    return higher


def _list(lower: list[Any], higher: list[Any], field: Field) -> list[Any]:
    if field.key is None:
        return [*lower, *(item for item in higher if item not in lower)]
    if any(field.identity(item) is None for item in (*lower, *higher)):
        return higher
    result = list(lower)
    for item, place in zip(higher, _places(lower, higher, field), strict=True):
        if place is None:
            result.append(item)
        else:
            result[place] = _object(result[place], item, type_named(field.type))
    return result


def _places(lower: Sequence[Json], higher: Sequence[Json], field: Field) -> list[int | None]:
    """Return for each item of `higher` the place of its counterpart in `lower`, or None where it is new.

    The counterpart agrees in every key, or else only in the one that Kubernetes merges by.
    """
    key = field.key or ""
    same = {field.identity(item): place for place, item in reversed(list(enumerate(lower)))}
    taken = {same.get(field.identity(item)) for item in higher}
    free = {item[key]: place for place, item in reversed(list(enumerate(lower))) if place not in taken}
    found: list[int | None] = []
    for item in higher:
        place = same.get(field.identity(item))
        found.append(free.pop(item[key], None) if place is None else place)
    return found


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(content) for name, content in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
