"""Resources of a container."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from tfdist.podspec.quantity import parse_quantity

NVIDIA_GPU: Final = "nvidia.com/gpu"


def nvidia_gpus(container: Mapping[str, Any]) -> int:
    """Return the number of whole NVIDIA GPUs in a container's limits; 0 for an amount that is not a number.

    Slices (`nvidia.com/mig-...`) are left out: how many devices a container sees depends on the node's plugin.
    """
    text = str(container.get("resources", {}).get("limits", {}).get(NVIDIA_GPU, 0))
    return int(text) if text.isdecimal() else 0


def gpu_count(container: Mapping[str, Any]) -> Fraction:
    """Return the number of GPUs in a container's limits, of any vendor (`nvidia.com/gpu`, `amd.com/gpu`).

    Raises:
        ValueError: an amount is not a quantity.
    """
    limits = container.get("resources", {}).get("limits", {})
    return sum((parse_quantity(v) for k, v in limits.items() if k.partition("/")[2] == "gpu"), Fraction())
