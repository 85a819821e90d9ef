"""Unions: fields of which at most one may be set. Kubernetes' validation has them, its OpenAPI document has not."""

import functools
from collections.abc import Mapping
from typing import Any, Final

from tfdist.podspec.schema import type_named

_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "EnvVar": frozenset({"value", "valueFrom"}),
    "EnvFromSource": frozenset({"configMapRef", "secretRef"}),
    "PodResourceClaim": frozenset({"resourceClaimName", "resourceClaimTemplateName"}),
    "Probe": frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
}
_NOT_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "EnvVarSource": frozenset(),
    "LifecycleHandler": frozenset(),
    "Volume": frozenset({"name"}),
    "VolumeProjection": frozenset(),
}
"""Types of which every field is a member of the union, except these."""

_MAY_BE_EMPTY: Final = frozenset({"EnvVar", "VolumeProjection"})


@functools.cache
def union_members(type_name: str) -> frozenset[str]:
    """Return the members of the union of type `type_name`; empty if the type is not a union."""
    if type_name in _NOT_MEMBERS:
        return frozenset(type_named(type_name).fields) - _NOT_MEMBERS[type_name]
    return _MEMBERS.get(type_name, frozenset())


def members_set(value: Mapping[Any, Any], type_name: str) -> list[str]:
    """Return the members of the union that are set in `value`; null is not set."""
    options = union_members(type_name)
    return [name for name in value if name in options and value[name] is not None] if options else []


def requires_member(type_name: str) -> bool:
    """Return whether Kubernetes rejects a value of the type `type_name` without a member set."""
    return bool(union_members(type_name)) and type_name not in _MAY_BE_EMPTY
