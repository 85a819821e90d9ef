"""Pods of the past: of earlier attempts, and of replicas that the job no longer has."""

from collections.abc import Mapping, Sequence
from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import GangName, gangs
from tfdist_operator.observed.gang import member_of
from tfdist_operator.observed.pod import PodState, PodSummary
from tfdist_operator.observed.record import GangRecord


def past_pods(job: TFDistJob, records: Mapping[GangName, GangRecord], pods: Sequence[PodSummary]) -> list[PodSummary]:
    """Return those of a job's `pods` that are of the past; a gang without a record has none of the past."""
    start = GangRecord()
    current = {m: records.get(gang.name, start).attempt_of(m) for gang in gangs(job) for m in gang.members}
    return [p for p in pods if member_of(p) not in current or p.attempt < current[member_of(p)]]


def surplus(job: TFDistJob, status: Mapping[str, Any], past: Sequence[PodSummary]) -> list[PodSummary]:
    """Return the ended pods of the past beyond `keepFailedPods`; `status` tells the root causes.

    Kept longest are failed ones, of them the newest, and in one attempt the root cause: its log is what people want.
    """
    keep = job.spec.run_policy.keep_failed_pods
    ended = [p for p in past if p.ended and not p.deleting]
    if len(ended) <= keep:
        return []
    causes = {f["pod"] for f in status.get("failures", ()) if f["rootCause"]}
    ended.sort(key=lambda p: (p.state is PodState.FAILED, p.attempt, p.name in causes, p.name))
    return ended[: len(ended) - keep]
