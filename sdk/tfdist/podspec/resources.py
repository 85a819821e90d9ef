"""Resources of a container."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tfdist.podspec.quantity import parse_quantity


def gpu_count(container: Mapping[str, Any]) -> Fraction:
    """Return the number of GPUs in a container's limits, of any vendor (`nvidia.com/gpu`, `amd.com/gpu`).

    Raises:
        ValueError: an amount is not a quantity.
    """
    limits = container.get("resources", {}).get("limits", {})
    return sum((parse_quantity(v) for k, v in limits.items() if k.partition("/")[2] == "gpu"), Fraction())
