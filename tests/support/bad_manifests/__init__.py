"""Invalid manifests with one error each, and its message: the table of the unit and the integration tests."""

from typing import Final

from support.bad_manifests import (
    bounds,
    exports,
    images,
    metadata,
    network,
    pods,
    policy_bounds,
    programs,
    role_rules,
    roles,
    rules,
    shapes,
    storage,
    templates,
    types,
)
from support.bad_manifests.case import Bad

BAD: Final[tuple[Bad, ...]] = (
    *shapes.CASES,
    *types.CASES,
    *bounds.CASES,
    *exports.CASES,
    *policy_bounds.CASES,
    *roles.CASES,
    *role_rules.CASES,
    *rules.CASES,
    *pods.CASES,
    *programs.CASES,
    *images.CASES,
    *storage.CASES,
    *metadata.CASES,
    *network.CASES,
    *templates.CASES,
)

__all__ = ["BAD", "Bad"]
