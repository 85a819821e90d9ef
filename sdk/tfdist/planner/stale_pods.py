"""Stale pods: of earlier attempts, and of replicas that the job no longer has."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.observed.gang_record import GangRecord
from tfdist.observed.gang_state import member_of
from tfdist.observed.pod import PodState, PodSummary
from tfdist.render.gang import GangName, gangs


def stale_pods(job: TFDistJob, records: Mapping[GangName, GangRecord], pods: Sequence[PodSummary]) -> list[PodSummary]:
    """Return the stale pods among `pods` of a job; a gang without a record has none."""
    start = GangRecord()
    current = {m: records.get(gang.name, start).attempt_of(m) for gang in gangs(job) for m in gang.members}
    return [p for p in pods if member_of(p) not in current or p.attempt < current[member_of(p)]]


def pods_to_prune(job: TFDistJob, status: Mapping[str, Any], stale: Sequence[PodSummary]) -> list[PodSummary]:
    """Return the ended stale pods beyond `keepFailedPods`; `status` names the root causes.

    Failed pods are kept longest, newest first, and within an attempt the root cause: its log is the useful one.
    """
    keep = job.spec.run_policy.keep_failed_pods
    ended = [p for p in stale if p.ended and not p.deleting]
    if len(ended) <= keep:
        return []
    causes = {f["pod"] for f in status.get("failures", ()) if f["rootCause"]}
    ended.sort(key=lambda p: (p.state is PodState.FAILED, p.attempt, p.name in causes, p.name))
    return ended[: len(ended) - keep]
