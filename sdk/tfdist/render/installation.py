"""Settings of an installation that affect every job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

NAME_LABEL: Final = "app.kubernetes.io/name"
CONTROLLER_LABELS: Final[Mapping[str, str]] = MappingProxyType({NAME_LABEL: "tfdist-controller"})
"""Labels of the controller's pods under the chart's default name."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Settings of an installation.

    `default_image` is the image of containers for which the job sets none. `cluster_domain` is appended to addresses,
    for clusters whose pods do not have it in their search path. `namespace` is the controller's, and
    `controller_labels` select its pods there. `pod_defaults` is a partial pod template that every job overrides.
    """

    default_image: str
    cluster_domain: str = ""
    namespace: str = "tfdist-system"
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)
    controller_labels: Mapping[str, str] = field(default_factory=lambda: CONTROLLER_LABELS)
