"""Finds the root cause of a failed attempt, classifies it, and records it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tfdist.api.status import ReplicaFailure
from tfdist.contract_reports import GangEnd
from tfdist.failure_classification import (
    DISRUPTION,
    LIMIT_EXCEEDED,
    LIMIT_MESSAGE,
    SECONDARY,
    STALLED,
    Action,
    Classification,
    classify,
    may_have_lost_peer,
    root_cause,
)
from tfdist.failure_text import early_exit
from tfdist.observed.gang_state import GangState, member_of
from tfdist.observed.pod import PodState, PodSummary
from tfdist.observed.termination import describe_failure, failure_message, has_log
from tfdist.planner.context import PlanContext
from tfdist.planner.failure_records import record_of
from tfdist.planner.peer_failure import ROOT_CAUSE_GRACE_SECONDS, unresponsive_peer
from tfdist.planner.progress_deadline import Stalled
from tfdist.render import names
from tfdist.render.gang import Member
from tfdist.restarts.stall import stall_text
from tfdist.status.update import MAX_FAILURES
from tfdist.timestamps import rfc3339

_LIMIT_BEGINS: Final = LIMIT_MESSAGE.partition("{")[0]


@dataclass(frozen=True, slots=True)
class ReplicaRootCause:
    """Root cause of a failed restart domain, with its classification. `pod` is None if the pod is gone."""

    pod: PodSummary | None
    member: Member
    classification: Classification
    description: str = ""
    """Its description in one line, if that is more than the end of `pod`."""
    others: tuple[PodSummary, ...] = ()
    """Secondary failures."""
    stacks: str = ""

    @property
    def text(self) -> str:
        """Description in one line, which is derived from the output of the pod at each use: few of many are used."""
        return self.description or (describe_failure(self.pod) if self.pod else "")


def root_cause_of_gang(context: PlanContext, state: GangState) -> ReplicaRootCause:
    """Return the root cause of a failure of the whole gang."""
    policy = context.spec.failure_policy
    unresponsive = unresponsive_peer(context, state)
    if unresponsive is not None:
        replica = f"{unresponsive.replica} (pod {unresponsive.name}, node {unresponsive.node})"
        first_failure = describe_failure(state.failed_or_terminating[0])
        text = f"{replica} is unresponsive; its peers reported a lost connection: {first_failure}"
        # As under launchers, silence is a disruption: a frozen or partitioned node is not the fault of the program.
        return ReplicaRootCause(
            unresponsive, member_of(unresponsive), DISRUPTION, text, tuple(state.failed_or_terminating)
        )
    cause = (
        root_cause(state.failed_or_terminating, policy, _failure_order(context, state))
        if state.failed_or_terminating
        else None
    )
    classification = classify(cause, policy) if cause else DISRUPTION
    # A member that lost its peer follows from the deletion of that peer.
    if cause is None or (state.deleted_members and may_have_lost_peer(cause)):
        return _deletion_cause(state.deleted_members[0], state.deleted_members, state.failed_or_terminating)
    others = tuple(p for p in state.failed_or_terminating if p is not cause)
    text = "; ".join(filter(None, (describe_failure(cause), early_exit(_completed_before(cause, state)))))
    return ReplicaRootCause(cause, member_of(cause), classification, text, others)


def root_causes_of_replicas(context: PlanContext, state: GangState) -> list[ReplicaRootCause]:
    """Return a root cause for each failed replica, if each is a restart domain of its own."""
    policy = context.spec.failure_policy
    causes = [ReplicaRootCause(p, member_of(p), classify(p, policy)) for p in state.failed_or_terminating]
    return causes + [_deletion_cause(m, (m,)) for m in state.deleted_members]


def root_cause_of_launchers(context: PlanContext, state: GangState, pod: PodSummary, end: GangEnd) -> ReplicaRootCause:
    """Return the root cause for which the launchers gave up, from the termination message of `pod`.

    Every launcher exits with the exit code and message of the one failed replica. The root cause is that replica, and
    not the one whose pod ended first.
    """
    member = Member(end.role, end.index)
    member_pod = next((p for p in state.pods if member_of(p) == member), None)
    name = (
        member_pod.name if member_pod else names.pod_name(context.job.metadata.name, end.role, end.index, pod.attempt)
    )
    attempt = member_pod.attempt if member_pod else pod.attempt
    cause = replace(
        pod,
        role=end.role,
        index=end.index,
        name=name,
        attempt=attempt,
        node=member_pod.node if member_pod else "",
        signal=None,
    )
    is_final = end.reason != LIMIT_EXCEEDED
    classification = (
        Classification(end.reason, Action.FAIL) if is_final else classify(cause, context.spec.failure_policy)
    )
    return ReplicaRootCause(cause, member, classification, _without_limit(describe_failure(cause)))


def root_cause_of_stall(state: GangState, stall: Stalled, *, of_leader: bool = False) -> tuple[ReplicaRootCause, str]:
    """Return the root cause of a stall, and a description in one line.

    Args:
        state: the gang.
        stall: the stall, with the replica that is behind.
        of_leader: whether it is the leader, because no other replica waits for it.
    """
    name = state.gang.leader.name if of_leader else stall.probe_result.behind
    behind = next((p for p in state.pods if p.replica == name), None)
    member = member_of(behind) if behind else state.gang.leader
    text = stall_text(stall.seconds, member.name if behind else "", stall.probe_result.positions.values())
    location = f" (pod {behind.name}{f', node {behind.node}' if behind.node else ''})" if behind else ""
    return ReplicaRootCause(behind, member, STALLED, text + location, stacks=stall.probe_result.stacks), text


def records(context: PlanContext, state: GangState, cause: ReplicaRootCause, *, counted: bool) -> list[ReplicaFailure]:
    """Return records for `status.failures`, the root cause last: the list is ordered by age.

    Of secondary failures the last ones by name are returned, as many as the status keeps.
    """
    others = sorted(cause.others, key=lambda p: p.name)[-MAX_FAILURES:]
    secondary = [record_of(context, p, SECONDARY, failure_message(p)) for p in others]
    if cause.pod is None:
        attempt = state.record.attempt_of(cause.member.name)
        name = names.pod_name(context.job.metadata.name, cause.member.role, cause.member.index, attempt)
        record = ReplicaFailure.model_construct(
            time=rfc3339(context.now),
            attempt=attempt,
            role=str(cause.member.role),
            index=cause.member.index,
            pod=name,
            reason=cause.classification.reason,
            message=cause.text,
            counted=counted,
            root_cause=True,
        )
    else:
        runs = not cause.pod.ended and not cause.pod.deleting  # stalled or unresponsive: it left no message
        message = cause.text if runs else _without_limit(failure_message(cause.pod))
        record = record_of(context, cause.pod, cause.classification.reason, message)
    changes = {"stacks": cause.stacks or None, "counted": counted, "root_cause": True}
    return [*secondary, record.model_copy(update=changes)]


def log_hint(context: PlanContext, cause: ReplicaRootCause) -> str:
    """Return where the log of the root cause is; "" if it has none."""
    if cause.pod is None or not has_log(cause.pod):
        return ""
    return f"; its log: {context.view.log_of(context.job.metadata.namespace, cause.pod)}"


def _deletion_cause(first: Member, members: Sequence[Member], others: Sequence[PodSummary] = ()) -> ReplicaRootCause:
    deleted = ", ".join(m.name for m in members)
    return ReplicaRootCause(None, first, DISRUPTION, f"the pod of {deleted} was deleted while it ran", tuple(others))


def _completed_before(cause: PodSummary, state: GangState) -> list[str]:
    """Return the replicas that had exited with 0 when another one, which depends on them, failed."""
    succeeded = (p for p in state.pods if p.state is PodState.SUCCEEDED)
    return [p.replica for p in succeeded if not cause.lost_at or p.finished_at <= cause.lost_at]


def _failure_order(context: PlanContext, state: GangState) -> Callable[[PodSummary], int]:
    """Return the rank of a failure by when it was observed; those within the reporting delay of kubelets are equal."""
    seen = {p.name: context.failure_seen_at[p.name].timestamp() for p in state.failed_or_terminating}
    first = min(seen.values())
    return lambda pod: int((seen[pod.name] - first) / ROOT_CAUSE_GRACE_SECONDS)


def _without_limit(text: str) -> str:
    """Return a launcher's message without the limit in it: the controller applies the current limit."""
    return text.partition(f"; {_LIMIT_BEGINS}")[0]
