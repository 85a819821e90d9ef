"""Short texts and numbers for the columns of `kubectl get`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tfdist.api.status import ConditionType, JobPhase
from tfdist.progress import duration
from tfdist.reasons import ConditionReason
from tfdist.status.phase import PROBLEMS, SUSPENDED_PHASES

Json = Mapping[str, Any]

_LONG: Final = 1e9


def summary(status: Json, metric: str, active_roles: set[str]) -> dict[str, str]:
    """Return `status.summary`; a column without content is omitted."""
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
    """Return the message of the most important condition: why the job is in its phase, or what it waits for.

    That is not the last transition: for a restart that waits for an image it is the image error.
    """
    by_type = {c["type"]: c for c in status.get("conditions", ())}
    return next(
        (by_type[kind]["message"] for kind, applies in _HEADLINES if kind in by_type and applies(by_type[kind])), ""
    )


def _is_true(condition: Json) -> bool:
    return bool(condition["status"] == "True")


_HEADLINES: Final[tuple[tuple[str, Callable[[Json], bool]], ...]] = (
    (ConditionType.SUCCEEDED, _is_true),
    (ConditionType.FAILED, _is_true),
    (ConditionType.INVALID, _is_true),
    (ConditionType.SUSPENDED, lambda c: c["reason"] in SUSPENDED_PHASES),
    (ConditionType.PODS_READY, lambda c: c["reason"] in PROBLEMS),
    (ConditionType.STALLED, _is_true),
    (ConditionType.RESTARTING, _is_true),
    (ConditionType.EVALUATED, lambda c: not _is_true(c) and c["reason"] != ConditionReason.RESUMED),
    (ConditionType.RUNNING, lambda c: _is_true(c) or c["reason"] == ConditionReason.TRAINING_SUCCEEDED),
    (ConditionType.PODS_READY, lambda _: True),
)
"""Conditions in order of importance, each with a test whether its message applies."""


def _metric(metrics: Json, wanted: str) -> str:
    name = wanted if wanted in metrics else next(iter(sorted(metrics)), "")
    return f"{name}={number(metrics[name])}" if name else ""


def number(value: float) -> str:
    """Return a metric as text: four decimal places, or an exponent for large numbers."""
    return f"{value:.4f}" if abs(value) < _LONG else f"{value:.4g}"
