"""JSON merge patches (RFC 7386): the smallest change that turns one object into another."""

from collections.abc import Mapping
from typing import Any


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch that turns `old` into `new`: changed members, and null for removed ones."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        previous = old.get(key)
        if key in old and previous == value:
            continue
        if isinstance(value, Mapping) and isinstance(previous, Mapping):
            value = merge_patch(previous, value)  # noqa: PLW2901  the nested change stands for the member
        patch[key] = value
    return patch
