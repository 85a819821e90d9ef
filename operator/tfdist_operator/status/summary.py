"""Words and short numbers for the columns of `kubectl get`."""

from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]


def summary(replicas: Json, progress: Json, evaluation: Json, metric: str, active_roles: set[str]) -> dict[str, str]:
    """Return `status.summary`; a column without content is left out."""
    result = {}
    ready = sum(counts["ready"] for role, counts in replicas.items() if role in active_roles)
    desired = sum(counts["desired"] for role, counts in replicas.items() if role in active_roles)
    if active_roles:
        result["ready"] = f"{ready}/{desired}"
    if "percent" in progress:
        result["progress"] = f"{progress['percent']}%"
    if "etaSeconds" in progress:
        result["eta"] = duration(progress["etaSeconds"])
    shown = _metric(evaluation.get("final", {}).get("metrics", {}) or progress.get("metrics", {}), metric)
    return result | ({"metric": shown} if shown else {})


def duration(seconds: int) -> str:
    """Return `seconds` as kubectl writes durations: `45s`, `1m20s`, `3h5m`."""
    if seconds < 60:  # noqa: PLR2004  seconds a minute
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:  # noqa: PLR2004  minutes an hour
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m" if minutes else f"{hours}h"


def _metric(metrics: Json, wanted: str) -> str:
    name = wanted if wanted in metrics else next(iter(sorted(metrics)), "")
    return f"{name}={metrics[name]:.4f}" if name else ""
