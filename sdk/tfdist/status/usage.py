"""`status.usage`: what the pods of a job used, and the time of its training steps.

Each pod counts from the time that it got its node until its container ended. Every write adds the part of these times
since the last write, so that usage needs no separate write, and no time is lost while no controller runs.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tfdist.api.history_status import Usage
from tfdist.observed.pod import PodSummary
from tfdist.observed.pod_resources import PodResources
from tfdist.status.attempts import Steps
from tfdist.timestamps import parse_time, rfc3339

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK_SKEW: Final = timedelta(seconds=10)
"""A pod that ended so shortly before the last write may have been counted as running."""


class _Times(NamedTuple):
    """The interval in which a pod uses its resources; without an end it still uses them."""

    resources: PodResources
    start: datetime
    end: datetime | None


def usage_of(stored: Usage | None, pods: Sequence[PodSummary], now: datetime) -> Usage | None:
    """Return `status.usage` at a time; None before the job has pods.

    Args:
        stored: `status.usage` as stored. Without `updatedAt`, as an older CRD leaves it, it does not count: the pods
            that exist are counted from their starts.
        pods: all pods of the job.
        now: the time, with a time zone.
    """
    if not pods and stored is None:
        return None
    usage = stored if stored is not None and stored.updated_at else Usage()
    last_update = parse_time(usage.updated_at) if usage.updated_at else _EARLIEST
    now = max(last_update, now.replace(microsecond=0))
    times = [interval for pod in pods if (interval := _times(pod, now)) is not None]
    counted_before = [
        t.resources for t in times if t.start <= last_update and (t.end is None or t.end >= last_update - _CLOCK_SKEW)
    ]
    seconds = [(t.resources, _overlap(t, last_update, now)) for t in times]
    if usage.updated_at:  # pods that were deleted since
        deleted = PodResources(
            _unexplained_rate(usage.gpus, [r.gpus for r in counted_before]),
            _unexplained_rate(usage.cpus, [r.cpus for r in counted_before]),
        )
        seconds.append((deleted, (now - last_update).total_seconds()))
    running = [t.resources for t in times if t.end is None]
    return usage.model_copy(
        update={
            "gpu_seconds": round((usage.gpu_seconds or 0.0) + sum(r.gpus * s for r, s in seconds), 3),
            "cpu_seconds": round((usage.cpu_seconds or 0.0) + sum(r.cpus * s for r, s in seconds), 3),
            "gpus": round(sum(r.gpus for r in running), 6),
            "cpus": round(sum(r.cpus for r in running), 6),
            "updated_at": rfc3339(now),
        }
    )


def with_steps(usage: Usage | None, steps: Steps) -> Usage:
    """Return the usage with the time of steps that were trained, or that a restart repeats."""
    usage = usage or Usage()
    last_step, productive_seconds, lost_seconds = (
        usage.step or 0,
        usage.productive_seconds or 0.0,
        usage.lost_seconds or 0.0,
    )
    if steps.begins_at is not None:
        repeated_seconds = min(productive_seconds, max(0, last_step - steps.begins_at) * steps.seconds)
        productive_seconds, lost_seconds, last_step = (
            productive_seconds - repeated_seconds,
            lost_seconds + repeated_seconds,
            steps.begins_at,
        )
    trained_seconds = min(max(0, steps.step - last_step) * steps.seconds, steps.longest_seconds)
    return usage.model_copy(
        update={
            "productive_seconds": round(productive_seconds + trained_seconds, 1),
            "lost_seconds": round(lost_seconds, 1),
            "step": max(last_step, steps.step),
        }
    )


def _times(pod: PodSummary, now: datetime) -> _Times | None:
    """Return the interval in which a pod uses its resources; None before it has a node.

    A pod whose end is in the future, by the clock of its node, counts as deleted.
    """
    start = pod.scheduled_at or (pod.created_at if pod.node else "")
    if not start:
        return None
    if not pod.ended or pod.sidecars_run:
        return _Times(pod.resources, parse_time(start), None)
    end = parse_time(pod.finished_at or pod.deleted_at or start)
    return None if end > now else _Times(pod.resources, parse_time(start), end)


def _overlap(times: _Times, since: datetime, now: datetime) -> float:
    return max(0.0, (min(times.end or now, now) - max(times.start, since)).total_seconds())


def _unexplained_rate(stored: float | None, explained: Iterable[float]) -> float:
    """Return the part of the stored rate that no existing pod explains."""
    return max(0.0, round((stored or 0.0) - sum(explained), 6))
