"""GPUs and CPUs of a pod, in the numbers that `status.usage` counts."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tfdist.contract import MAIN_CONTAINER
from tfdist.podspec.quantity import parse_quantity
from tfdist.podspec.resources import gpu_count

_MOST_VALUES: Final = 1024
"""Ten thousand cached pods share a few values."""


class PodResources(NamedTuple):
    """Amounts of GPUs and cores."""

    gpus: float = 0.0
    cpus: float = 0.0


NO_RESOURCES: Final = PodResources()


def pod_resources(spec: Mapping[str, Any]) -> PodResources:
    """Return the GPU limits and CPU requests of the container `tensorflow`, given the specification of its pod."""
    found: Mapping[str, Any] = next((c for c in spec.get("containers", ()) if c.get("name") == MAIN_CONTAINER), {})
    resources = found.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    gpus = tuple((name, str(amount)) for name, amount in limits.items() if name.endswith("/gpu"))
    return _parsed(gpus, str(requests.get("cpu", limits.get("cpu", 0))))


@lru_cache(_MOST_VALUES)
def _parsed(gpus: tuple[tuple[str, str], ...], cpus: str) -> PodResources:
    try:
        return PodResources(float(gpu_count({"resources": {"limits": dict(gpus)}})), float(parse_quantity(cpus)))
    except ValueError:  # a quantity that only a newer Kubernetes knows
        return NO_RESOURCES
