"""Settings of an installation that the plan of every job needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

NAME_LABEL: Final = "app.kubernetes.io/name"
CONTROLLER_LABELS: Final[Mapping[str, str]] = MappingProxyType({NAME_LABEL: "tfdist-controller"})
"""Labels of the controller's pods under the chart's default name."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Settings of an installation."""

    default_image: str
    """Image of containers for which the job sets none."""
    cluster_domain: str = ""
    """Suffix of addresses, such as `cluster.local`, for clusters whose pods do not have it in their search path."""
    cluster: str | None = None
    """Identifies the cluster to trainers that share storage with trainers of other clusters; None if it is unknown."""
    namespace: str = "tfdist-system"
    """Namespace of the controller."""
    pod_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Partial pod template; the fields of every job take precedence."""
    controller_labels: Mapping[str, str] = field(default_factory=lambda: CONTROLLER_LABELS)
    """Labels of the controller's pods; the NetworkPolicies admit only these to the report ports of jobs."""
    settle_seconds: float = 10.0
    """Time for the other replicas to end by themselves after the success of the leader."""
