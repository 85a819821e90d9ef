"""Merging of pod fields: lists merge by key as `kubectl apply` does, later layers win."""

from collections.abc import Sequence
from typing import Any, Final

from tfdist.api.pod_fields import PodFields

LIST_KEYS: Final = {"env": "name", "volumes": "name", "volumeMounts": "mountPath"}


def merged_fields(*layers: PodFields | None) -> dict[str, Any]:
    """Return the pod fields of all layers as JSON, lowest first; absent fields are left out."""
    result: dict[str, Any] = {}
    for layer in layers:
        if layer is None:
            continue
        fields = layer.model_dump(mode="json", by_alias=True, exclude_none=True, include=_POD_FIELDS)
        for name, value in fields.items():
            key = LIST_KEYS.get(name)
            result[name] = merge_by_key(result.get(name, ()), value, key) if key else value
    return result


def merge_by_key(lower: Sequence[dict[str, Any]], higher: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """Return the items of both lists, an item of `higher` in the place of that of `lower` with the same key."""
    return list(({item[key]: item for item in lower} | {item[key]: item for item in higher}).values())


_POD_FIELDS: Final = set(PodFields.model_fields)
