"""Hoists settings that the roles have in common to the job.

The merged pods do not change: a hoisted value is equal in every role, or a role that differs replaces it as a whole.
Of a list that merges by key only a common prefix is hoisted, so that the order of its items does not change either.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final

from tfdist.convert.result import Json
from tfdist.convert.tfjob import MAIN_CONTAINER

_REPLACED: Final = ("image", "imagePullPolicy", "command", "args", "workingDir", "envFrom")
_EQUAL: Final = ("resources",)
_LISTS: Final = ("env", "volumeMounts", "volumes")


def hoist(roles: Sequence[Json]) -> tuple[Json, list[Json]]:
    """Return the fields of the job, and the remaining fields of each of `roles`, in the same order."""
    job: Json = {}
    remaining_roles = [dict(role) for role in roles]
    for name in _REPLACED:
        _hoist_most_common(name, job, remaining_roles)
    _hoist_equal(_EQUAL, job, remaining_roles)
    for name in _LISTS:
        _hoist_beginning(name, job, remaining_roles)
    _hoist_template(job, remaining_roles)
    return job, remaining_roles


def _hoist_most_common(name: str, job: Json, roles: list[Json]) -> None:
    """Hoist the most common value; the other roles replace it, so each role must have a value."""
    if not all(name in role for role in roles):
        return
    values = [role[name] for role in roles]
    value = max(values, key=values.count)
    if len(roles) == 1 or values.count(value) > 1:
        job[name] = value
        for role in roles:
            if role[name] == value:
                del role[name]


def _hoist_equal(names: Sequence[str], job: Json, roles: list[Json]) -> None:
    for name in names:
        if all(name in role and role[name] == roles[0][name] for role in roles):
            job[name] = roles[0][name]
            for role in roles:
                del role[name]


def _hoist_beginning(name: str, job: Json, roles: list[Json]) -> None:
    lists = [role.get(name, []) for role in roles]
    common = [items[0] for items in takewhile(_all_equal, zip(*lists, strict=False))]
    if not common:
        return
    job[name] = common
    for role in roles:
        remainder = role.pop(name)[len(common) :]
        if remainder:
            role[name] = remainder


def _all_equal(items: Sequence[Any]) -> bool:
    return all(item == items[0] for item in items)


def _hoist_template(job: Json, roles: list[Json]) -> None:
    templates = [role.pop("template", {}) for role in roles]
    metas = [dict(t.get("metadata", {})) for t in templates]
    common_meta: Json = {}
    for name in ("labels", "annotations"):
        found, rests = _hoist_entries([m.get(name, {}) for m in metas])
        common_meta |= {name: found} if found else {}
        for meta, remainder in zip(metas, rests, strict=True):
            meta[name] = remainder
    common_spec, specs = _hoist_pod([t.get("spec", {}) for t in templates])
    _put(job, common_meta, common_spec)
    for role, meta, spec in zip(roles, metas, specs, strict=True):
        _put(role, {k: v for k, v in meta.items() if v}, spec)


def _put(fields: Json, metadata: Json, spec: Json) -> None:
    template = ({"metadata": metadata} if metadata else {}) | ({"spec": spec} if spec else {})
    if template:
        fields["template"] = template


def _hoist_pod(specs: list[Json]) -> tuple[Json, list[Json]]:
    """Hoist from pods: containers by name, a common prefix of `initContainers`, and other fields that are equal."""
    remaining_specs = [dict(spec) for spec in specs]
    containers = [{c["name"]: c for c in spec.pop("containers", ())} for spec in remaining_specs]
    common: Json = {}
    _hoist_beginning("initContainers", common, remaining_specs)
    equal, remaining_specs = _hoist_entries(remaining_specs)
    common |= equal
    mains = [{k: v for k, v in c.pop(MAIN_CONTAINER, {}).items() if k != "name"} for c in containers]
    common_main, mains = _hoist_entries(mains)
    common_others, others = _hoist_entries(containers)
    _put_containers(common, common_main, common_others)
    for spec, main, other in zip(remaining_specs, mains, others, strict=True):
        _put_containers(spec, main, other)
    return common, remaining_specs


def _put_containers(spec: Json, main: Json, others: Json) -> None:
    first = [{"name": MAIN_CONTAINER} | main] if main else []
    if first or others:
        spec["containers"] = [*first, *others.values()]


def _hoist_entries(parts: list[Json]) -> tuple[Json, list[Json]]:
    """Return the entries that all parts have with the same value, and the remaining entries of each part."""
    first, *others = parts
    common = {k: v for k, v in first.items() if all(k in part and part[k] == v for part in others)}
    return common, [{k: v for k, v in part.items() if k not in common} for part in parts]
