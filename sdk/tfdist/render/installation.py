"""What holds for all jobs of an installation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Installation:
    """What the people who run the controller have decided.

    `default_image` is used where a job names none; `cluster_domain` is put behind addresses where pods do not
    search for it themselves; `namespace` is the controller's own; `pod_defaults` is part of a
    pod template, which everything that a job says overrides.
    """

    default_image: str
    cluster_domain: str = ""
    namespace: str = "tfdist-system"
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)
