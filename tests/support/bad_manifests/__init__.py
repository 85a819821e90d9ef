"""Manifests with one mistake each, and what the user is told: the one table of the unit and the integration tests."""

from typing import Final

from support.bad_manifests import bounds, metadata, pods, roles, rules, shapes, storage, templates, types
from support.bad_manifests.case import Bad

BAD: Final[tuple[Bad, ...]] = (
    *shapes.CASES,
    *types.CASES,
    *bounds.CASES,
    *roles.CASES,
    *rules.CASES,
    *pods.CASES,
    *storage.CASES,
    *metadata.CASES,
    *templates.CASES,
)

__all__ = ["BAD", "Bad"]
