"""Fields of which a value names one: what Kubernetes' validation knows, and its OpenAPI document does not say."""

import functools
from collections.abc import Mapping
from typing import Any, Final

from tfdist.podspec.schema import type_named

_CHOICES: Final[Mapping[str, frozenset[str]]] = {
    "EnvVar": frozenset({"value", "valueFrom"}),
    "EnvFromSource": frozenset({"configMapRef", "secretRef"}),
    "PodResourceClaim": frozenset({"resourceClaimName", "resourceClaimTemplateName"}),
    "Probe": frozenset({"exec", "grpc", "httpGet", "tcpSocket"}),
}
_ALL_BUT: Final[Mapping[str, frozenset[str]]] = {
    "EnvVarSource": frozenset(),
    "LifecycleHandler": frozenset(),
    "Volume": frozenset({"name"}),
    "VolumeProjection": frozenset(),
}
"""Types of which every field is one of the choices, but for these."""

_MAY_NAME_NONE: Final = frozenset({"EnvVar", "VolumeProjection"})


@functools.cache
def choices(type_name: str) -> frozenset[str]:
    """Return the fields of the type `type_name` of which a value names at most one; empty where there are none."""
    if type_name in _ALL_BUT:
        return frozenset(type_named(type_name).fields) - _ALL_BUT[type_name]
    return _CHOICES.get(type_name, frozenset())


def chosen(value: Mapping[Any, Any], type_name: str) -> list[str]:
    """Return those of the choices that `value` names; null names nothing."""
    options = choices(type_name)
    return [name for name in value if name in options and value[name] is not None] if options else []


def must_choose(type_name: str) -> bool:
    """Say whether Kubernetes refuses a value of the type `type_name` that names none of the choices."""
    return bool(choices(type_name)) and type_name not in _MAY_NAME_NONE
