"""Words and short numbers for the columns of `kubectl get`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tfdist.api.status import ConditionType, JobPhase
from tfdist_operator.status.phase import PROBLEMS, SUSPENDED, SUSPENDING, TRAINED

Json = Mapping[str, Any]


def summary(status: Json, metric: str, active_roles: set[str]) -> dict[str, str]:
    """Return `status.summary`; a column without content is left out."""
    result = {}
    progress, evaluation = status.get("progress", {}), status.get("evaluation", {})
    if active_roles:
        active = [counts for role, counts in status["replicas"].items() if role in active_roles]
        result["ready"] = f"{sum(c['ready'] for c in active)}/{sum(c['desired'] for c in active)}"
    if "percent" in progress:
        result["progress"] = f"{progress['percent']}%"
    if "etaSeconds" in progress and status["phase"] == JobPhase.RUNNING:
        result["eta"] = duration(progress["etaSeconds"])
    scored = evaluation.get("final") or evaluation.get("latest") or {}
    shown = _metric(scored.get("metrics") or progress.get("metrics", {}), metric)
    if shown:
        result["metric"] = shown
    if "restarts" in status:
        result["restarts"] = str(status["restarts"]["counted"] + status["restarts"]["uncounted"])
    message = headline(status)
    return result | ({"message": message} if message else {})


def headline(status: Json) -> str:
    """Return what people want to know first: why the job is in its phase, or what it waits for.

    That is not what changed last: a restart that waits for an image is told of by the image.
    """
    by_type = {c["type"]: c for c in status.get("conditions", ())}
    return next(
        (by_type[kind]["message"] for kind, tells in _HEADLINES if kind in by_type and tells(by_type[kind])), ""
    )


def _holds(condition: Json) -> bool:
    return bool(condition["status"] == "True")


_HEADLINES: Final[tuple[tuple[str, Callable[[Json], bool]], ...]] = (
    (ConditionType.SUCCEEDED, _holds),
    (ConditionType.FAILED, _holds),
    (ConditionType.INVALID, _holds),
    (ConditionType.SUSPENDED, lambda c: c["reason"] in {SUSPENDED, SUSPENDING}),
    (ConditionType.PODS_READY, lambda c: c["reason"] in PROBLEMS),
    (ConditionType.STALLED, _holds),
    (ConditionType.RESTARTING, _holds),
    (ConditionType.EVALUATED, lambda c: not _holds(c)),
    (ConditionType.RUNNING, lambda c: _holds(c) or c["reason"] == TRAINED),
    (ConditionType.PODS_READY, lambda _: True),
)
"""In this order: the first condition that tells."""


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
