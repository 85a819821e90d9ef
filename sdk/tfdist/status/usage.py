"""`status.usage`: what the pods of a job used, and the time of its training steps.

Each pod counts from the time that it got its node until its container ended. Every write adds the part of these times
since the last write, so that usage needs no write of its own, and a controller that was away loses nothing.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from tfdist.api.history_status import Usage
from tfdist.observed.pod import PodSummary
from tfdist.observed.pod_resources import Resources
from tfdist.status.attempts import Steps
from tfdist.timestamps import parse_time, rfc3339

_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK_SKEW: Final = timedelta(seconds=10)
"""A pod that ended so shortly before the last write may have been counted as running."""


class _Times(NamedTuple):
    """From when to when a pod uses its resources; it still does without an end."""

    resources: Resources
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
    known = stored if stored is not None and stored.updated_at else Usage()
    since = parse_time(known.updated_at) if known.updated_at else _EARLIEST
    now = max(since, now.replace(microsecond=0))
    times = [found for pod in pods if (found := _times(pod, now)) is not None]
    before = [t.resources for t in times if t.start <= since and (t.end is None or t.end >= since - _CLOCK_SKEW)]
    seconds = [(t.resources, _overlap(t, since, now)) for t in times]
    if known.updated_at:  # pods that were deleted since
        gone = Resources(_rest(known.gpus, [r.gpus for r in before]), _rest(known.cpus, [r.cpus for r in before]))
        seconds.append((gone, (now - since).total_seconds()))
    running = [t.resources for t in times if t.end is None]
    return known.model_copy(
        update={
            "gpu_seconds": round((known.gpu_seconds or 0.0) + sum(r.gpus * s for r, s in seconds), 3),
            "cpu_seconds": round((known.cpu_seconds or 0.0) + sum(r.cpus * s for r, s in seconds), 3),
            "gpus": round(sum(r.gpus for r in running), 6),
            "cpus": round(sum(r.cpus for r in running), 6),
            "updated_at": rfc3339(now),
        }
    )


def with_steps(usage: Usage | None, steps: Steps) -> Usage:
    """Return the usage with the time of steps that were trained, or that a restart repeats."""
    usage = usage or Usage()
    counted, kept, repeated = usage.step or 0, usage.productive_seconds or 0.0, usage.lost_seconds or 0.0
    if steps.begins_at is not None:
        again = min(kept, max(0, counted - steps.begins_at) * steps.seconds)
        kept, repeated, counted = kept - again, repeated + again, steps.begins_at
    trained = min(max(0, steps.step - counted) * steps.seconds, steps.longest_seconds)
    return usage.model_copy(
        update={
            "productive_seconds": round(kept + trained, 1),
            "lost_seconds": round(repeated, 1),
            "step": max(counted, steps.step),
        }
    )


def _times(pod: PodSummary, now: datetime) -> _Times | None:
    """Return when a pod uses its resources; None before it has a node.

    One whose end is yet to come, by the clock of its node, counts as one that was deleted.
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


def _rest(stored: float | None, before: Iterable[float]) -> float:
    """Return the amount that the stored rate has and no existing pod explains."""
    return max(0.0, round((stored or 0.0) - sum(before), 6))
