"""Short texts and numbers for the columns of `kubectl get`."""

from collections.abc import Callable, Mapping
from typing import Final

from tfdist.api.status import ConditionType, JobCondition, JobPhase, Progress, Summary, TFDistJobStatus
from tfdist.outcome import find_condition
from tfdist.progress import duration
from tfdist.reasons import ConditionReason
from tfdist.status.phase import PROBLEMS, SUSPENDED_PHASES

_LONG: Final = 1e9


def summary(status: TFDistJobStatus, metric: str, active_roles: set[str]) -> Summary:
    """Return `status.summary`; a column without content is not set.

    Args:
        status: the status, apart from this.
        metric: name of the metric to show.
        active_roles: roles whose replicas count as ready or not.
    """
    progress, restarts = status.progress or Progress(), status.restarts
    percent, eta = progress.percent, progress.eta_seconds
    return Summary(
        ready=_ready_text(status, active_roles) if active_roles else None,
        progress=None if percent is None else f"{percent}%",
        eta=duration(eta) if eta is not None and status.phase is JobPhase.RUNNING else None,
        metric=_metric(_metrics(status), metric) or None,
        restarts=str(restarts.counted + restarts.uncounted) if restarts else None,
        message=headline(status) or None,
    )


def _ready_text(status: TFDistJobStatus, active_roles: set[str]) -> str:
    active = [counts for role, counts in (status.replicas or {}).items() if role in active_roles]
    return f"{sum(c.ready for c in active)}/{sum(c.desired for c in active)}"


def _metrics(status: TFDistJobStatus) -> Mapping[str, float]:
    """Return the metrics of the last evaluation, or of training."""
    evaluation = status.evaluation
    result = (evaluation.final or evaluation.latest) if evaluation else None
    if result and result.metrics:
        return result.metrics
    return (status.progress.metrics if status.progress else None) or {}


def headline(status: TFDistJobStatus) -> str:
    """Return the message of the most important condition: why the job is in its phase, or what it waits for.

    That is not the last transition: for a restart that waits for an image it is the image error.
    """
    candidates = ((find_condition(status, kind), applies) for kind, applies in _HEADLINES)
    return next((condition.message for condition, applies in candidates if condition and applies(condition)), "")


def _is_true(condition: JobCondition) -> bool:
    return condition.status == "True"


_HEADLINES: Final[tuple[tuple[ConditionType, Callable[[JobCondition], bool]], ...]] = (
    (ConditionType.SUCCEEDED, _is_true),
    (ConditionType.FAILED, _is_true),
    (ConditionType.INVALID, _is_true),
    (ConditionType.SUSPENDED, lambda c: c.reason in SUSPENDED_PHASES),
    (ConditionType.PODS_READY, lambda c: c.reason in PROBLEMS),
    (ConditionType.STALLED, _is_true),
    (ConditionType.RESTARTING, _is_true),
    (ConditionType.EVALUATED, lambda c: not _is_true(c) and c.reason != ConditionReason.RESUMED),
    (ConditionType.DEGRADED, _is_true),
    (ConditionType.RUNNING, lambda c: _is_true(c) or c.reason == ConditionReason.TRAINING_SUCCEEDED),
    (ConditionType.PODS_READY, lambda _: True),
)
"""Conditions in order of importance, each with a test whether its message applies."""


def _metric(metrics: Mapping[str, float], preferred: str) -> str:
    name = preferred if preferred in metrics else next(iter(sorted(metrics)), "")
    return f"{name}={number(metrics[name])}" if name else ""


def number(value: float) -> str:
    """Return a metric as text: four decimal places, or an exponent for large numbers."""
    return f"{value:.4f}" if abs(value) < _LONG else f"{value:.4g}"
