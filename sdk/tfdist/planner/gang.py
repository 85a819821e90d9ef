"""Plans one gang: creates missing pods, waits for them, restarts the gang, or fails it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tfdist.api.status import ConditionType, ReplicaFailure
from tfdist.contract import Role
from tfdist.messages import count
from tfdist.observed.gang_state import GangState, member_of
from tfdist.observed.pod import CANNOT_START, PodState, PodSummary
from tfdist.outcome import find_condition
from tfdist.planner import inplace_restart, pod_rejection
from tfdist.planner.context import PlanContext
from tfdist.planner.directory_in_use import directory_in_use
from tfdist.planner.failure_policy import (
    continues_without,
    handle_failure,
    is_independent,
    restart_resized,
    restart_stalled,
)
from tfdist.planner.gang_scheduling import missing_scheduler
from tfdist.planner.messages import (
    in_place_restart_text,
    join_replicas,
    missing_progress,
    older_specification,
    pending_members,
    running_text,
    unreported_progress,
)
from tfdist.planner.partial_gang import release_nodes, seconds_until_release
from tfdist.planner.plan import GangDecision, GangFailure, min_delay, not_ready
from tfdist.planner.planned_restart import (
    has_drained,
    planned_restart,
    restart_without_specification,
)
from tfdist.planner.progress_deadline import Progressing, Stalled, check_progress
from tfdist.planner.unexplained_pod import (
    kubelet_problem,
    kubelet_text,
    seconds_until_unexplained,
    seconds_until_untried,
    unexplained_pod,
    untried_pod,
    untried_text,
)
from tfdist.reasons import ConditionReason
from tfdist.render.gang import GangName
from tfdist.status.conditions import Condition, is_true
from tfdist.status.phase import PROBLEMS, training_succeeded
from tfdist.timestamps import rfc3339

_RETRY_SECONDS: Final = 10.0
"""When a job whose scheduler is missing is reconciled again."""
_SLOW_SECONDS: Final = 30.0
"""After this time the status names a replica that has not started."""
_IMAGE_DEADLINE_SECONDS: Final = 300
"""Deadline of a replica whose image or configuration has an error, from when it got its node, if the job has none."""


def plan_gang(context: PlanContext, state: GangState) -> GangDecision:
    """Return the decision about a gang that has not succeeded."""
    if state.gang.name is not GangName.TRAINING:
        return _run(context, state)
    update = inplace_restart.apply_launcher_report(context, state)
    decision = _run(context, replace(state, record=update.record), update.failures)
    return replace(decision, failures=(*update.failures, *decision.failures), events=(*update.events, *decision.events))


def _run(context: PlanContext, state: GangState, recorded: Sequence[ReplicaFailure] = ()) -> GangDecision:
    """Return the decision about a gang; `recorded` are failures of its launchers that the status does not have yet."""
    # First what replaces the pods anyway: a failure of pods that a resize or a planned restart ends must not count.
    sizes = _resized_roles(context, state)
    if sizes:
        return restart_resized(context, state, sizes)
    restart = planned_restart(context, state)
    if restart:
        return restart
    # Failures before missing pods: the policy decides whether the lost member alone is created again, or all are.
    if state.failed_or_terminating or state.deleted_members:
        return handle_failure(context, state)
    if state.missing:
        return _create_pods(context, state)
    # Only a gang whose replicas have all started can stall; until then the start deadline applies.
    if not state.all_started:
        return _await_start(context, state)
    return _plan_running(context, state, recorded)


def _resized_roles(context: PlanContext, state: GangState) -> str:
    """Return the replica counts that differ from those that the pods were created with, as text; "" if none does.

    A gang is resized only while the job is suspended, but the suspension may begin and end between two reconciles.
    """
    stored_counts = context.view.status.replicas or {}
    old_sizes = {role: stored_counts[role].desired for role in state.gang.sizes() if role in stored_counts}
    new_sizes = {role: n for role, n in state.gang.sizes().items() if n != old_sizes.get(role, n)}
    roles = state.gang.sizes()
    oldest = state.record.last_full_restart
    # A resize before the first pod of the attempt needs no restart.
    have_pods = any(p.role in roles and p.attempt >= oldest for p in context.view.pods)  # of removed replicas too
    return ", ".join(
        f"{role}: {count(n, 'replica')} instead of {old_sizes[role]}" for role, n in new_sizes.items() if have_pods
    )


def _create_pods(context: PlanContext, state: GangState) -> GangDecision:
    """Create missing pods after the back-off, once the checkpoint directory is free and the scheduler is installed."""
    if used := directory_in_use(context):  # the job is reconciled when that changes
        return _await_replicas(context, state, used)
    # Pods that are created while the scheduler is unknown would have no PodGroup (ADR 54).
    missing = missing_scheduler(context, state)
    state = _after_unknown_scheduler(context, state, missing)
    if missing:
        decision = _await_replicas(context, state, missing)
        return replace(decision, requeue_after_seconds=min_delay([decision.requeue_after_seconds, _RETRY_SECONDS]))
    if context.revision is None:
        text = f"a pod of the {state.gang.name} is missing and is not created until the specification is corrected"
        return _await_replicas(context, state, GangFailure(ConditionReason.FAILED_CREATE, text))
    # All pods of an attempt have one specification; a gang whose specification is lost restarts as a whole (ADR 22).
    if context.specification_of(state) is None:
        return restart_without_specification(context, state)
    # A planned restart waits for the pods to end, not for the whole grace period, hence `has_drained`.
    wait = -context.seconds_since(state.record.retry_after) if state.record.retry_after else 0.0
    if wait > 0 and not has_drained(context, state):
        return GangDecision(state, requeue_after_seconds=wait)
    decision = _await_replicas(context, state, _creation_problem(context, state))
    return replace(pod_rejection.with_rejection(context, state, decision), create=state.missing)


def _creation_problem(context: PlanContext, state: GangState) -> GangFailure | None:
    """Return why a missing pod cannot be created, else why a pod that exists cannot start; None if neither is known."""
    if error := context.view.runtime.create_error:
        text = f"a replica of the {state.gang.name} cannot be created: {error}"
        return GangFailure(ConditionReason.FAILED_CREATE, text)
    return _problem(context, state.unstartable) if state.unstartable else None


def _after_unknown_scheduler(context: PlanContext, state: GangState, missing: GangFailure | None) -> GangState:
    """Return the state of a gang; its start deadline begins when it is known again whether its scheduler is there."""
    unknown, pods_ready = (
        ConditionReason.GANG_SCHEDULER_UNKNOWN,
        find_condition(context.view.status, ConditionType.PODS_READY),
    )
    if pods_ready is None or pods_ready.reason != unknown or (missing and missing.reason is unknown):
        return state
    # While it was unknown whether the scheduler exists, the start deadline did not run (ADR 54).
    return replace(state, record=state.record.changed(retry_after=max(state.record.retry_after, rfc3339(context.now))))


def _await_start(context: PlanContext, state: GangState) -> GangDecision:
    """Wait for the replicas to start."""
    if state.unstartable:
        # A gang that holds nodes others wait for gives them up before its own deadline counts (ADR 36).
        return release_nodes(context, state) or _unstartable(context, state, state.unstartable)
    slow = unexplained_pod(context, state)
    decision = _await_replicas(context, state, kubelet_problem(context, slow))
    waits = (seconds_until_unexplained(context, state), seconds_until_untried(context, state))
    requeue = min_delay([decision.requeue_after_seconds, *waits])
    return replace(decision, unexplained_pod=slow.name if slow else "", requeue_after_seconds=requeue)


def _unstartable(context: PlanContext, state: GangState, pod: PodSummary) -> GangDecision:
    """Wait while a replica cannot start."""
    decision = _await_replicas(context, state, _problem(context, pod))
    requeue = min_delay([decision.requeue_after_seconds, seconds_until_release(context, state)])
    return replace(decision, requeue_after_seconds=requeue)


def _await_replicas(context: PlanContext, state: GangState, problem: GangFailure | None) -> GangDecision:
    """Wait for replicas until the start deadline; `problem` is the reason why one cannot start."""
    condition = not_ready(problem.reason, problem.message) if problem else _starting_condition(context, state)
    conditions = _allowed_conditions(
        context, state, (condition, *missing_replica_conditions(context, state, condition))
    )
    slow = None if problem or state.gang.name is not GangName.TRAINING else _seconds_until_slow(context, state)
    decision = GangDecision(state, conditions=conditions, requeue_after_seconds=slow)
    limit, field = context.spec.run_policy.start_deadline_seconds, " (runPolicy.startDeadlineSeconds)"
    start = _waiting_since(context, state)
    # Kubernetes retries an image or a ConfigMap for ever: such errors need a deadline even if the job sets none.
    if limit is None and problem and problem.reason in {ConditionReason.IMAGE_ERROR, ConditionReason.CONFIG_ERROR}:
        limit, field, start = _IMAGE_DEADLINE_SECONDS, "", _placed_since(state) or start
    # The cluster, not the job, is at fault while its API cannot be read (ADR 54).
    if limit is None or (problem and problem.reason is ConditionReason.GANG_SCHEDULER_UNKNOWN):
        return decision  # its user cannot do anything
    remaining = context.remaining_seconds(limit, start)
    if remaining > 0:
        return replace(decision, requeue_after_seconds=min_delay([remaining, decision.requeue_after_seconds]))
    failure = problem or GangFailure(ConditionReason.START_DEADLINE_EXCEEDED, _not_started_text(context, state))
    return replace(decision, failure=GangFailure(failure.reason, f"{failure.message}; gave up after {limit} s{field}"))


def _waiting_since(context: PlanContext, state: GangState) -> str:
    """Return since when (RFC 3339) the gang waits for a replica to start; replicas that run already do not count."""
    pending = [p.created_at for p in state.pods if p.state is PodState.PENDING and p.created_at]
    newest = [p.created_at for p in state.pods if p.attempt == state.attempt and p.created_at]
    pods_ready = find_condition(context.view.status, ConditionType.PODS_READY)
    not_ready_since = pods_ready.last_transition_time if pods_ready and pods_ready.status == "False" else ""
    if state.record.released and not_ready_since:
        return not_ready_since  # a release of nodes does not extend the deadline
    if pending or newest:
        return min(pending or newest)
    return max(not_ready_since, state.record.retry_after, context.view.status.active_since or "")


def _placed_since(state: GangState) -> str:
    """Return since when (RFC 3339) a replica that has not started has its node; "" if none has one."""
    placed = (p.scheduled_at or p.created_at for p in state.pods if p.state is PodState.PENDING and p.node)
    return min(filter(None, placed), default="")


def _problem(context: PlanContext, pod: PodSummary) -> GangFailure:
    """Return why a replica cannot start: the reason, and a message that names the field to correct."""
    reason = ConditionReason.UNSCHEDULABLE
    if pod.reason in CANNOT_START:
        reason = ConditionReason.CONFIG_ERROR if "Config" in pod.reason else ConditionReason.IMAGE_ERROR
    replica = pod.replica
    subject = f"{_image_path(context, pod.role)}: {replica}" if reason == ConditionReason.IMAGE_ERROR else replica
    return GangFailure(reason, f"{subject} cannot start: {pod.reason}: {pod.message or 'no reason given'}")


def _image_path(context: PlanContext, role: Role) -> str:
    """Return the path of the field that names the image of a role's replicas."""
    fields = context.spec.fields_of(role)
    name = Role.WORKER if role is Role.EVALUATION else role
    return f"spec.{name}.image" if fields and fields.image else "spec.image"


def _plan_running(context: PlanContext, state: GangState, recorded: Sequence[ReplicaFailure]) -> GangDecision:
    waits = inplace_restart.rendezvous_wait(context, state)
    unreported, silent = unreported_progress(context, state), missing_progress(context, state)
    run = running_text(state)
    text = f"{run} (attempt {state.attempt}){_first_rendezvous_text(waits)}{pending_members(context, state)}"
    text += unreported.text + silent.text + older_specification(context, state)
    conditions = [Condition(ConditionType.PODS_READY, True, ConditionReason.ALL_REPLICAS_RUNNING, run)]
    if waits and waits.restart:
        restarts = in_place_restart_text(context, state, recorded, waits.text)
        conditions.append(Condition(ConditionType.RESTARTING, True, ConditionReason.IN_PLACE_RESTART, restarts))
    elif state.attempt or is_true(context.view.status, ConditionType.RESTARTING):
        conditions.append(Condition(ConditionType.RESTARTING, False, ConditionReason.ALL_REPLICAS_RUNNING, text))
    if state.gang.name is GangName.EVALUATOR:
        return GangDecision(state, conditions=_allowed_conditions(context, state, tuple(conditions)))
    if state.gang.name is GangName.TRAINING:
        conditions.append(Condition(ConditionType.RUNNING, True, ConditionReason.ALL_REPLICAS_RUNNING, text))
    # An evaluator never stalls the job: evaluation.deadlineSeconds bounds it after training.
    result = check_progress(context, state)
    if isinstance(result, Stalled):
        return restart_stalled(context, state, result)
    # A leader that does not answer is reported only; the deadline above decides, as the network may be at fault.
    if context.view.runtime.leader_unresponsive:
        conditions.append(
            Condition(ConditionType.STALLED, True, ConditionReason.LEADER_UNRESPONSIVE, _unresponsive_leader(state))
        )
    elif _progresses_again(context, result):
        conditions.append(
            Condition(ConditionType.STALLED, False, ConditionReason.PROGRESS_RESUMED, "training completes steps again")
        )
    return GangDecision(
        state,
        conditions=_allowed_conditions(context, state, tuple(conditions)),
        probes=result.probes,
        probe_id=result.probe_id,
        requeue_after_seconds=min_delay(
            [result.requeue_after_seconds, unreported.requeue_after_seconds, silent.requeue_after_seconds]
        ),
    )


def _progresses_again(context: PlanContext, result: Progressing) -> bool:
    """Return whether a gang with `Stalled=True` makes progress again."""
    stalled = find_condition(context.view.status, ConditionType.STALLED)
    return (
        stalled is not None
        and stalled.status == "True"
        and (result.progressing or stalled.reason == ConditionReason.LEADER_UNRESPONSIVE)
    )


def _unresponsive_leader(state: GangState) -> str:
    """Return a message that names the unresponsive leader; the other launchers wait for it, or its pod is replaced."""
    pod = state.leader
    leader = f"{pod.replica} (pod {pod.name}, node {pod.node})" if pod else state.gang.leader.name
    return f"{leader} leads the gang and no longer answers: the process, its node or the network to it hangs"


def _first_rendezvous_text(waits: inplace_restart.LaunchersWait | None) -> str:
    """Return the part of a message about the first rendezvous of the launchers; "" without one."""
    return f"; their launchers wait: {waits.text}" if waits and not waits.restart else ""


def _starting_condition(context: PlanContext, state: GangState) -> Condition:
    """Return the condition of a gang that starts; after a while it names a replica that has not started."""
    text = f"{state.gang.name} starts with {count(len(state.gang.members), 'replica')} (attempt {state.attempt})"
    if _seconds_until_slow(context, state) is None:
        text += f"; {_not_started_text(context, state)}"
    return not_ready(ConditionReason.STARTING, text)


def _seconds_until_slow(context: PlanContext, state: GangState) -> float | None:
    """Return the seconds until a start counts as slow; None if it does already."""
    since = _waiting_since(context, state)
    remaining = _SLOW_SECONDS - context.seconds_since(since) if since else _SLOW_SECONDS
    return remaining if remaining > 0 else None


def _not_started_text(context: PlanContext, state: GangState) -> str:
    """Return a message about the replica that has not started; of several the last, which probably starts last."""
    pending = [p for p in state.pods if p.state is PodState.PENDING]
    if not pending:
        return f"{', '.join(m.name for m in state.missing[-1:])} of the {state.gang.name} has no pod"
    untried = untried_pod(context, state)
    pod = next((p for p in pending if kubelet_text(context, p)), untried or pending[-1])
    node = f", node {pod.node}" if pod.node else ""
    reason = ": ".join(filter(None, (pod.reason, pod.message or kubelet_text(context, pod))))
    if not reason:
        reason = (
            f"the kubelet of node {pod.node} has not reported it" if pod.node else "no node has been assigned to it"
        )
        reason = untried_text(context, state) if untried == pod else reason
    return f"{pod.replica} (pod {pod.name}{node}) has not started: {reason}"


def _allowed_conditions(
    context: PlanContext, state: GangState, conditions: tuple[Condition, ...]
) -> tuple[Condition, ...]:
    """Return the conditions that a gang may set: during training, an evaluator sets only problems of its start.

    The phase reports the start of an evaluation gang, which needs no separate write.
    """
    if state.gang.name is GangName.TRAINING:
        return conditions
    # During training the conditions describe training: an evaluator that runs or restarts must not change them.
    if state.gang.name is GangName.EVALUATOR and not training_succeeded(context.view.status):
        return tuple(c for c in conditions if c.reason in PROBLEMS)
    return tuple(c for c in conditions if c.reason != ConditionReason.STARTING)


def missing_replica_conditions(context: PlanContext, state: GangState, waits: Condition) -> tuple[Condition, ...]:
    """Return the conditions of a training that has run and lacks a replica; independent replicas need no others.

    Args:
        context: of the job.
        state: the gang.
        waits: the condition with the reason why the replica has not started.
    """
    if state.gang.name is not GangName.TRAINING:
        return ()
    if is_independent(context, state) and not state.record.has_run:
        return _partial_start_conditions(context, state)
    if not (is_true(context.view.status, ConditionType.RUNNING) or is_independent(context, state)):
        return ()
    started = {member_of(p) for p in state.pods if p.state is not PodState.PENDING}
    absent = [m for m in state.gang.members if m not in started and m.name not in state.record.completed]
    if not absent:
        return ()
    names = join_replicas([m.name for m in absent])
    if continues_without(context, state, absent):
        run = len(state.gang.members) - len(absent)
        verbs = "runs, and trains" if run == 1 else "run, and train"
        text = f"{run} of {len(state.gang.members)} replicas {verbs} without {names} (attempt {state.attempt})"
        return _continuing_conditions(context, text)
    text = f"training waits for {names}: {waits.message}"
    return (
        Condition(ConditionType.RUNNING, False, ConditionReason.REPLICA_MISSING, text),
        Condition(ConditionType.RESTARTING, True, ConditionReason.REPLICA_MISSING, text),
    )


def _partial_start_conditions(context: PlanContext, state: GangState) -> tuple[Condition, ...]:
    """Return the conditions of independent replicas that run while others have never started.

    The text has no numbers: each start of many replicas would be a write of the status.
    """
    if not any(p.state is PodState.RUNNING for p in state.pods):
        return ()
    return _continuing_conditions(
        context, f"replicas run, and do not wait for those that have not started (attempt {state.attempt})"
    )


def _continuing_conditions(context: PlanContext, text: str) -> tuple[Condition, ...]:
    """Return the conditions of a training that continues without some replicas."""
    runs = Condition(ConditionType.RUNNING, True, ConditionReason.WORKER_MISSING, text)
    if not is_true(context.view.status, ConditionType.RESTARTING):
        return (runs,)
    return (runs, Condition(ConditionType.RESTARTING, False, ConditionReason.WORKER_MISSING, text))
