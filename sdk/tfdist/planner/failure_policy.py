"""Decides after a failure: which replicas restart, when, and whether the job fails.

The restart domain depends on the strategy: a gang restarts as a whole; a worker of `ParameterServer` restarts alone,
because its coordinator continues without it, and so does each replica of `Independent`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import ConditionType, ReplicaFailure
from tfdist.api.v1 import Strategy
from tfdist.contract import Role
from tfdist.contract_reports import GangEnd
from tfdist.failure_classification import DISRUPTION, PEER_LOST, PREEMPTED, REPEATABLE, Action
from tfdist.observed.gang_state import GangState, gang_state, member_of
from tfdist.observed.pod import PodState, PodSummary
from tfdist.observed.termination import describe_failure, failure_message
from tfdist.outcome import find_condition
from tfdist.planner import inplace_restart
from tfdist.planner.context import PlanContext
from tfdist.planner.peer_failure import peer_probes, root_cause_grace_remaining_seconds
from tfdist.planner.plan import Event, GangDecision, GangFailure, not_ready
from tfdist.planner.progress_deadline import Stalled
from tfdist.planner.root_cause import (
    ReplicaRootCause,
    log_hint,
    records,
    root_cause_of_gang,
    root_cause_of_launchers,
    root_cause_of_stall,
    root_causes_of_replicas,
)
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName, Member
from tfdist.restarts import budget
from tfdist.restarts.budget import ApplicationError, BudgetDecision
from tfdist.status.conditions import Condition
from tfdist.timestamps import rfc3339

_REMEDIES: Final = {
    "UserError": "a restart would fail the same way: correct it and create the job again",
    "FailurePolicy": "a rule of spec.failurePolicy ends the job",
}


def handle_failure(context: PlanContext, state: GangState) -> GangDecision:
    """Return the decision about replicas that failed, are terminating, or were deleted."""
    if is_independent(context, state):
        return _replace_alone(context, state)
    # Launchers that gave up know the cause; without them the controller must find it among the pods.
    terminated = inplace_restart.launcher_termination(state)
    if terminated is not None:
        return _launchers_gave_up(context, state, *terminated)
    # The surviving launchers restart the processes: only the failed pod is replaced (ADR 15).
    if inplace_restart.gang_survives(state):
        wait = inplace_restart.graceful_exit_remaining_seconds(context, state)
        if wait > 0:
            return GangDecision(state, conditions=_graceful_exit_conditions(state), requeue_after_seconds=wait)
        return _replace_alone(context, state)
    # Kubelets report independently: the cause may arrive after its consequences.
    wait = root_cause_grace_remaining_seconds(context, state)
    if wait > 0:
        return GangDecision(state, requeue_after_seconds=wait)
    # The coordinator of ParameterServer goes on without a worker; everybody else depends on all members.
    failed = {member_of(p) for p in state.failed_or_terminating} | set(state.deleted_members)
    if continues_without(context, state, failed):
        return _replace_alone(context, state)
    # If every failed member only lost a peer, a running one hangs: it is probed before anything restarts.
    probes, probe_id = peer_probes(context, state)
    if probes:
        return GangDecision(state, probes=probes, probe_id=probe_id)
    return _restart(context, state, [root_cause_of_gang(context, state)])


def _launchers_gave_up(context: PlanContext, state: GangState, pod: PodSummary, end: GangEnd) -> GangDecision:
    """Return the decision after the launchers gave up, by the current limits of the job, which they may not know."""
    state = replace(state, record=inplace_restart.with_launcher_restarts(state.record, end.restarts))
    decision = _restart(context, state, [root_cause_of_launchers(context, state, pod, end)])
    # The report of the same round may have arrived before the termination message.
    if inplace_restart.is_recorded(context, pod, end):
        return replace(decision, failures=())
    return replace(decision, failures=tuple(f.model_copy(update={"round": end.round}) for f in decision.failures))


def restart_stalled(context: PlanContext, state: GangState, stall: Stalled) -> GangDecision:
    """Return the restart of a stalled gang; the messages name the slowest replica.

    The steps of independent replicas do not depend on each other: only the leader, whose steps are known, restarts.
    """
    is_alone = is_independent(context, state)
    cause, text = root_cause_of_stall(state, stall, of_leader=is_alone)
    decision = _restart(context, state, [cause], alone=is_alone)
    stalled = Condition(ConditionType.STALLED, True, ConditionReason.PROGRESS_DEADLINE_EXCEEDED, text)
    event = Event(EventReason.STALLED, text, warning=True, identity=str(state.attempt))
    return replace(decision, conditions=(*decision.conditions, stalled), events=(event, *decision.events))


def restart_resized(context: PlanContext, state: GangState, sizes: str) -> GangDecision:
    """Return the restart of a gang whose pods were created with other replica counts."""
    record = state.record.next_attempt()
    next_state = gang_state(state.gang, record, context.view.pods)
    text, identity = f"the {state.gang.name} was resized, {sizes}", f"{state.gang.name}-{record.attempt}"
    note = f"{text}; attempt {record.attempt} follows"
    event = Event(EventReason.RESTARTING, note, identity=identity, cause=ConditionReason.RESIZED)
    conditions = _restart_conditions(state, ConditionReason.RESIZED, text, f"attempt {record.attempt} follows: {text}")
    return GangDecision(next_state, create=next_state.missing, conditions=conditions, events=(event,))


def is_independent(context: PlanContext, state: GangState) -> bool:
    """Return whether each replica of a gang is a separate restart domain."""
    return context.spec.strategy is Strategy.INDEPENDENT and state.gang.name is GangName.TRAINING


def continues_without(context: PlanContext, state: GangState, missing: Iterable[Member]) -> bool:
    """Return whether training continues without these members.

    True for workers of `ParameterServer`; for any replicas of `Independent`, while another one runs.
    """
    absent = set(missing)
    if is_independent(context, state):
        return any(p.state is PodState.RUNNING and member_of(p) not in absent for p in state.pods)
    is_asynchronous = context.spec.strategy is Strategy.PARAMETER_SERVER and state.gang.name is GangName.TRAINING
    return is_asynchronous and all(m.role is Role.WORKER for m in absent)


def _graceful_exit_conditions(state: GangState) -> tuple[Condition, ...]:
    """Return the conditions of a gang that saves a checkpoint because one of its pods is terminating."""
    terminating_pod = next(p for p in state.failed_or_terminating if p.deleting)
    text = f"{describe_failure(terminating_pod)}; the gang saves a checkpoint, then the replica is replaced"
    return _restart_conditions(state, DISRUPTION.reason, text, text)


def _replace_alone(context: PlanContext, state: GangState) -> GangDecision:
    """Return the replacement of each failed replica alone, each counted separately.

    Where the revision of the other pods is not known, all are replaced: a gang never has pods of two revisions.
    """
    is_known = context.revision is None or context.specification_of(state) is not None
    return _restart(context, state, root_causes_of_replicas(context, state), alone=is_known)


def _restart(
    context: PlanContext, state: GangState, causes: Sequence[ReplicaRootCause], *, alone: bool = False
) -> GangDecision:
    """Count the failures and begin the next attempt, of all members or of each failed member alone.

    The errors of independent replicas are not compared: the same one from two of them, such as a lost connection to
    their chief, is not a repetition, and their progress is unknown.
    """
    record, restarts = state.record, state.record.restarts
    # A new checkpoint is progress: the budget starts again, and an equal error does not repeat the last one.
    used_budget = budget.at_checkpoint(restarts, context.newest_checkpoint(state))
    is_compared = used_budget is restarts and not is_independent(context, state)
    last = context.last_root_cause(state.gang) if is_compared else None
    limit, key = context.spec.run_policy.backoff_limit, f"{context.job.metadata.uid}-{record.attempt}"
    failures: list[ReplicaFailure] = []
    delay = 0.0
    for cause in causes:
        is_repeated = _is_repeated(cause, last)
        seconds = _ran_seconds(context, state, cause)
        decision = budget.decide(
            used_budget, cause.classification, limit, ran_seconds=seconds, repeated=is_repeated, jitter_key=key
        )
        used_budget, delay = decision.restarts, max(delay, decision.delay_seconds)
        record = record.changed(**dict(used_budget))
        failures += records(context, state, cause, counted=decision.counted)
        # The counters are kept, as the status shows the restarts of a failed job.
        if decision.final:
            failure = _terminal_failure(context, cause, decision)
            return GangDecision(replace(state, record=record), failures=tuple(failures), failure=failure)
    # Only an attempt that follows can avoid nodes, hence after the decision that there is one.
    record, excluded = exclude_nodes(context, state, record, causes)
    next_record = _next_record(context, state, record, causes, delay, alone=alone)
    return _begin_attempt(context, state, next_record, causes, tuple(failures), excluded, alone=alone)


def _ran_seconds(context: PlanContext, state: GangState, cause: ReplicaRootCause) -> float:
    """Return for how long the replica of a root cause has had its node; if its pod is gone, how long the gang has run.

    Both times are the API server's. A program cannot change them, unlike its reports.
    """
    if cause.pod is not None:
        since = cause.pod.scheduled_at or cause.pod.created_at
    else:
        ready = find_condition(context.view.status, ConditionType.PODS_READY)
        has_run = ready is not None and ready.status == "True" and state.gang.name is not GangName.EVALUATOR
        since = ready.last_transition_time if ready is not None and has_run else ""
    return context.seconds_since(since) if since else 0.0


def _terminal_failure(context: PlanContext, cause: ReplicaRootCause, decision: BudgetDecision) -> GangFailure:
    """Return the failure of the gang, whose root cause is final or exceeds the limit."""
    remedy = decision.remedy or _REMEDIES.get(decision.final, "")
    return GangFailure(decision.final, "; ".join(filter(None, (cause.text, remedy))) + log_hint(context, cause))


def _is_repeated(cause: ReplicaRootCause, last: ReplicaFailure | None) -> bool:
    """Return whether the last root cause, which is recorded in the status, was the same error."""
    if cause.pod is None or last is None or cause.classification.reason not in REPEATABLE:
        return False
    if cause.classification.action is Action.AVOID_NODE and cause.pod.node != (last.node or ""):
        return False  # another node had the same fault: a third one may not have it
    # without a message, the reason that replaces it does not identify the error
    text = failure_message(cause.pod)[:1024] if cause.pod.message.strip() else ""
    last_error = ApplicationError(last.exit_code, last.message)
    return ApplicationError(cause.pod.exit_code, text).repeats(last_error)


def _next_record(
    context: PlanContext,
    state: GangState,
    record: GangStatus,
    causes: Sequence[ReplicaRootCause],
    delay: float,
    *,
    alone: bool,
) -> GangStatus:
    retry_after = rfc3339(context.now + timedelta(seconds=delay)) if delay else ""
    # A full restart begins a new PodGroup, address generation and launcher token; a replacement joins the old ones.
    if not alone:
        return record.next_attempt(retry_after=retry_after)
    for cause in causes:
        name, number = cause.member.name, record.attempt + 1
        replaced = {**record.replaced, name: number}
        pending, completed = record.pending_replacements | {name}, record.completed - {name}
        record = record.changed(attempt=number, replaced=replaced, pending_replacements=pending, completed=completed)
        if cause.member == state.gang.leader:
            record = record.with_new_leader()
    # Another replica may still wait for its back-off: the later time applies to all.
    if record.retry_after and context.seconds_since(record.retry_after) < 0:
        retry_after = max(retry_after, record.retry_after)  # it is of other replicas too: none ends it for them
    return record.changed(retry_after=retry_after)


def _begin_attempt(
    context: PlanContext,
    state: GangState,
    record: GangStatus,
    causes: Sequence[ReplicaRootCause],
    failures: tuple[ReplicaFailure, ...],
    excluded: str,
    *,
    alone: bool,
) -> GangDecision:
    """Return the decision that begins the next attempt, with its conditions and events."""
    next_state = gang_state(state.gang, record, context.view.pods)
    text, reason = causes[-1].text, causes[-1].classification.reason
    identity = f"{state.gang.name}-{record.attempt}"
    timing = f"begins at {record.retry_after}" if record.retry_after else "follows"
    trains_on = alone and continues_without(context, state, [cause.member for cause in causes])
    events = [Event(EventReason.RESTARTING, text, warning=True, identity=identity, cause=reason)]
    if excluded:
        note = f"{excluded}; later attempts prefer other nodes"
        events.append(Event(EventReason.NODE_AVOIDED, note, warning=True, identity=identity))
    wait = -context.seconds_since(record.retry_after) if record.retry_after else 0.0
    return GangDecision(
        next_state,
        create=next_state.missing if wait <= 0 else (),
        conditions=_restart_conditions(
            state, reason, text, f"attempt {record.attempt} {timing}: {text}", trains_on=trains_on
        ),
        failures=failures,
        events=tuple(events),
        requeue_after_seconds=wait or None,
    )


def _restart_conditions(
    state: GangState, reason: str, text: str, next_text: str, *, trains_on: bool = False
) -> tuple[Condition, ...]:
    """Return the conditions of a gang that lacks a replica; with `trains_on` training continues without it."""
    if state.gang.name is GangName.EVALUATOR:
        return ()
    waits = not_ready(ConditionReason.RESTARTING, next_text)
    if trains_on:
        return (waits,)
    restarting = Condition(ConditionType.RESTARTING, True, reason, text)
    if state.gang.name is GangName.TRAINING:
        return (restarting, Condition(ConditionType.RUNNING, False, reason, text), waits)
    return (restarting, waits)


MAX_AVOIDED: Final = 10

_BLAMELESS: Final = frozenset({DISRUPTION.reason, PREEMPTED.reason, PEER_LOST})
"""Reasons that are not caused by the node: disruptions by the cluster, and the loss of a peer on another node."""


def exclude_nodes(
    context: PlanContext, state: GangState, record: GangStatus, causes: Sequence[ReplicaRootCause]
) -> tuple[GangStatus, str]:
    """Return the record with further excluded nodes, and why they are excluded as text; "" without any.

    One failure with the action `AvoidNode` excludes a node. Any other failure excludes it if the last root cause and
    one of a *later* attempt were on it: all failures of one attempt are one incident.
    """
    at_fault = [cause for cause in causes if cause.classification.action is Action.AVOID_NODE]
    # Once may be chance; twice in a row on one node is probably the node.
    repeated_node = _node_of_two_attempts(context, state, causes)
    reasons = {_node(cause): f"{cause.member.name} failed by a fault of node {_node(cause)}" for cause in at_fault}
    reasons.setdefault(repeated_node, f"two attempts in a row failed on node {repeated_node}")
    new_nodes = [node for node in reasons if node and node not in record.excluded_nodes]
    if not new_nodes:
        return record, ""
    return (
        record.changed(excluded_nodes=(*record.excluded_nodes, *new_nodes)[-MAX_AVOIDED:]),
        "; ".join(reasons[node] for node in new_nodes),
    )


def _node_of_two_attempts(context: PlanContext, state: GangState, causes: Sequence[ReplicaRootCause]) -> str:
    """Return the node of the last root cause and of one of a later attempt; "" without one."""
    last = context.last_root_cause(state.gang)
    if last is None or last.reason in _BLAMELESS:
        return ""
    node = last.node or ""
    failed_again = any(
        cause.pod is not None
        and cause.pod.node == node
        and cause.pod.attempt > last.attempt
        and cause.classification.reason not in _BLAMELESS
        for cause in causes
    )
    return node if failed_again else ""


def _node(cause: ReplicaRootCause) -> str:
    return cause.pod.node if cause.pod else ""
