"""Strategic merge of two pod templates, as in `kubectl apply`."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.podspec.schema import Field, Type, type_named, types
from tfdist.podspec.unions import members_set, union_members

Json = dict[str, Any]


def merge(lower: Mapping[str, Any], higher: Mapping[str, Any], type_name: str) -> Json:
    """Return `lower` overlaid with `higher`, both (partial) values of the type `type_name`, such as `PodSpec`.

    Objects merge field by field. Lists with a merge key merge by it (env by name, mounts by path, ports by number):
    items of `lower` keep their order, new ones follow. Other values of `higher` replace those of `lower`. Of a union,
    such as the sources of a volume, the members that `higher` sets remain. Ports of equal number are distinguished by
    protocol if both set it, unlike in Kubernetes' own patches.

    The result shares nothing with the inputs. Malformed values replace and raise nothing; `problems` reports them.

    Raises:
        KeyError: a pod template has no such type.
    """
    result: Json = _copy(_object(lower, higher, type_named(type_name)))
    return result


def _object(lower: Mapping[str, Any], higher: Mapping[str, Any], kind: Type) -> Json:
    excluded = union_members(kind.name) - higher.keys() if members_set(higher, kind.name) else frozenset()
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
        known = {item for item in lower if isinstance(item, str)}
        return [*lower, *(item for item in higher if not isinstance(item, str) or item not in known)]
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
    """Return for each item of `higher` the index of its counterpart in `lower`, or None if it is new.

    The counterpart is equal in every key, otherwise in the merge key.
    """
    key = field.key or ""
    positions = {field.identity(item): place for place, item in reversed(list(enumerate(lower)))}
    used = {positions.get(field.identity(item)) for item in higher}
    unused = {item[key]: place for place, item in reversed(list(enumerate(lower))) if place not in used}
    result: list[int | None] = []
    for item in higher:
        place = positions.get(field.identity(item))
        result.append(unused.pop(item[key], None) if place is None else place)
    return result


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(content) for name, content in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
