"""Strategic merge of two pod templates, as in `kubectl apply`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfdist.podspec.schema import Field, Type, type_named, types
from tfdist.podspec.unions import members_set, union_members

Json = dict[str, Any]


def merge(lower: Mapping[str, Any], higher: Mapping[str, Any], type_name: str) -> Json:
    """Return `lower` overlaid with `higher`; see `merge_all`."""
    return merge_all((lower, higher), type_name)


def merge_all(layers: Iterable[Mapping[str, Any]], type_name: str) -> Json:
    """Return (partial) values of the type `type_name`, such as `PodSpec`, each overlaid with the next, lowest first.

    Objects merge field by field. Lists with a merge key merge by it (env by name, mounts by path, ports by number):
    items of the lower value keep their order, new ones follow. Other values of the higher one replace the values of the
    lower one. Of a union, such as the sources of a volume, the members that the higher value sets remain. Ports of
    equal number are distinguished by protocol if both set it, unlike in Kubernetes' own patches.

    The result shares nothing with the inputs. Malformed values replace and raise nothing; `problems` reports them.

    Raises:
        KeyError: a pod template has no such type.
    """
    kind = type_named(type_name)
    result: Json = {}
    for layer in layers:
        result = _object(result, layer, kind)
    copy: Json = _copy(result)
    return copy


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
    identities, wanted = ([field.identity(item) for item in items] for items in (lower, higher))
    if None in identities or None in wanted:
        return higher
    positions = {identity: place for place, identity in reversed(list(enumerate(identities)))}
    result = list(lower)
    for item, place in zip(higher, _places(lower, higher, field.key, [positions.get(w) for w in wanted]), strict=True):
        if place is None:
            result.append(item)
        else:
            result[place] = _object(result[place], item, type_named(field.type))
    return result


def _places(
    lower: Sequence[Json], higher: Sequence[Json], key: str, equal: Sequence[int | None]
) -> Iterator[int | None]:
    """Yield for each item of `higher` the index of its counterpart in `lower`, or None if it is new.

    The counterpart is equal in every key (`equal` has its index), otherwise in the merge key `key`.
    """
    used = set(equal)
    unused = {item[key]: place for place, item in reversed(list(enumerate(lower))) if place not in used}
    for item, place in zip(higher, equal, strict=True):
        yield unused.pop(item[key], None) if place is None else place


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(content) for name, content in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
