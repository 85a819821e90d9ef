"""Records of `status.failures`: of a pod that ended, and of a process that a launcher ran."""

from typing import Final

from tfdist.api.status import ReplicaFailure
from tfdist.contract_reports import RoundFailure
from tfdist.observed.gang_state import GangState, member_of
from tfdist.observed.pod import PodSummary
from tfdist.planner.context import PlanContext
from tfdist.render import names
from tfdist.render.gang import Member
from tfdist.timestamps import rfc3339

_LONGEST_MESSAGE: Final = 1024
_LONGEST_STACKS: Final = 4096


def record_of(context: PlanContext, pod: PodSummary, reason: str, message: str) -> ReplicaFailure:
    """Return the record of a pod's failure, as neither counted nor a root cause."""
    return ReplicaFailure.model_construct(
        time=pod.finished_at or rfc3339(context.now),
        attempt=pod.attempt,
        role=str(pod.role),
        index=pod.index,
        pod=pod.name,
        node=pod.node or None,
        exit_code=pod.exit_code,
        signal=pod.signal,
        reason=reason,
        message=message[:_LONGEST_MESSAGE],
        counted=False,
        root_cause=False,
    )


def record_of_round(context: PlanContext, state: GangState, failure: RoundFailure) -> ReplicaFailure:
    """Return the record of a process failure that ended a round, or that followed from one."""
    member = Member(failure.role, failure.index)
    attempt = state.record.attempt_of(member.name)
    pod = next((p for p in state.pods if member_of(p) == member), None)
    return ReplicaFailure.model_construct(
        time=failure.time or rfc3339(context.now),
        attempt=attempt,
        round=failure.round,
        role=str(failure.role),
        index=failure.index,
        pod=names.pod_name(context.job.metadata.name, failure.role, failure.index, attempt),
        node=pod.node if pod and pod.node else None,
        exit_code=failure.exit_code,
        signal=failure.signal,
        reason=failure.reason,
        message=failure.message[:_LONGEST_MESSAGE],
        stacks=failure.stacks[:_LONGEST_STACKS] if failure.stacks else None,
        counted=failure.counted,
        root_cause=failure.root_cause,
    )
