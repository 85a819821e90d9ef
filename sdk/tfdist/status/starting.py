"""Time that a job has been starting, for the metric and the alert about jobs that do not start."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tfdist.api.status import ConditionType, JobPhase
from tfdist.status.conditions import find
from tfdist.timestamps import parse_time


def starting_seconds(status: Mapping[str, Any], now: datetime) -> float:
    """Return for how many seconds a job in phase `Starting` has not been ready; 0 for any other job.

    A malformed status, written by hand, counts as 0.
    """
    if status.get("phase") != JobPhase.STARTING:
        return 0.0
    try:
        condition = find(status, ConditionType.PODS_READY)
        return max(0.0, (now - parse_time(condition["lastTransitionTime"])).total_seconds()) if condition else 0.0
    except (KeyError, TypeError, ValueError):
        return 0.0
