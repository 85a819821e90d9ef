"""Restarts of a gang without a failure: for a changed specification, on request by annotation, or for a deleted Secret.

No such restart counts towards the backoff limit.
"""

from datetime import timedelta
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.contract import DEFAULT_GRACE_SECONDS
from tfdist.observed.gang_record import UNKNOWN_REVISION
from tfdist.observed.gang_state import GangState, gang_state
from tfdist.observed.pod import PodState
from tfdist.outcome import find_condition
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event, GangDecision, not_ready
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render import names
from tfdist.render.gang import GangName
from tfdist.render.template import role_template
from tfdist.status.conditions import Condition
from tfdist.timestamps import rfc3339

_MARGIN_SECONDS: Final = 5
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_PLANNED: Final = frozenset(
    {ConditionReason.SPEC_CHANGED, ConditionReason.RESTART_REQUESTED, ConditionReason.LAUNCHER_KEY_DELETED}
)


def planned_restart(context: PlanContext, state: GangState) -> GangDecision | None:
    """Return the planned restart of a gang; None if none is due."""
    if context.revision is None or not state.pods:
        return None
    # A request first: it restarts whether or not the specification has changed.
    if context.restart_requested:
        return _restart(
            context,
            state,
            ConditionReason.RESTART_REQUESTED,
            f"annotation {names.RESTART_ANNOTATION} requests a restart",
        )
    # The role may not read Secrets: a missing one shows only in the pods that need it (ADR 32).
    if _lacks_key(context, state):
        text = f"the Secret {names.launcher_secret(context.job)} with the key of its launchers was deleted"
        return _restart(context, state, ConditionReason.LAUNCHER_KEY_DELETED, text)
    if not context.is_outdated(state):
        return None
    description = f"specification of generation {context.view.generation} changes its pods"
    if context.spec.run_policy.update_strategy == "Restart" and not context.view.problems:
        return _restart(
            context, state, ConditionReason.SPEC_CHANGED, f"{description} (runPolicy.updateStrategy: Restart)"
        )
    # A missing pod of the old specification can never be created: only the new one helps (ADR 22).
    if context.view.runtime.is_rejected(context.view.generation):
        return _restart(
            context,
            state,
            ConditionReason.SPEC_CHANGED,
            f"{description}, and the API server rejects the pods of the earlier one",
        )
    # No pod has started, so a restart loses nothing (ADR 22).
    is_pending = all(p.state is PodState.PENDING for p in state.pods)
    is_unknown = state.record.template == UNKNOWN_REVISION
    if is_pending and not is_unknown and not state.record.has_run and not state.record.completed:
        return _restart(context, state, ConditionReason.SPEC_CHANGED, f"{description} before any of them has started")
    return None


def _lacks_key(context: PlanContext, state: GangState) -> bool:
    """Return whether a pod cannot start without the Secret of the launchers.

    Other pods may have the key of the deleted Secret, so all get the key of the next one, with the next attempt.
    """
    secret = names.launcher_secret(context.job)
    return any(
        p.state is PodState.PENDING and p.reason == _CONFIG_ERROR and f'secret "{secret}" not found' in p.message
        for p in state.pods
    )


def restart_without_specification(context: PlanContext, state: GangState) -> GangDecision:
    """Return the restart of a gang that lacks a pod and whose specification for it is not available."""
    text = f"specification of generation {state.record.generation or '?'}, which its pods use, is not available"
    return _restart(context, state, ConditionReason.SPEC_CHANGED, f"a pod is missing, and the {text}")


def _restart(context: PlanContext, state: GangState, reason: str, cause: str) -> GangDecision:
    """Begin the next attempt, after the pods of the current attempt have saved a checkpoint and ended."""
    # The old pods save and end first: the next attempt continues from their checkpoint.
    until = (
        context.now + timedelta(seconds=_grace_seconds(context, state))
        if any(not p.ended for p in state.pods)
        else None
    )
    record = state.record.next_attempt(retry_after=rfc3339(until) if until else "")
    next_state = gang_state(state.gang, record, context.view.pods)
    text = f"{state.gang.name} restarts as attempt {record.attempt}: {cause}"
    event = Event(EventReason.RESTARTING, text, identity=f"{state.gang.name}-{record.attempt}", cause=reason)
    return GangDecision(
        next_state,
        create=() if until else next_state.missing,
        conditions=_conditions(state, reason, text),
        events=(event,),
        requeue_after_seconds=(until - context.now).total_seconds() if until else None,
    )


def _conditions(state: GangState, reason: str, text: str) -> tuple[Condition, ...]:
    if state.gang.name is GangName.EVALUATOR:
        return ()
    restarting, waits = (
        Condition(ConditionType.RESTARTING, True, reason, text),
        not_ready(ConditionReason.RESTARTING, text),
    )
    if state.gang.name is not GangName.TRAINING:
        return (restarting, waits)
    return (restarting, Condition(ConditionType.RUNNING, False, reason, text), waits)


def _grace_seconds(context: PlanContext, state: GangState) -> int:
    """Return how many seconds the gang's pods may take to end: the longest grace period of a role, and a margin."""
    job, roles = context.specification_of(state) or context.job, {pod.role for pod in state.pods}
    specs = (role_template(job, role).get("spec", {}) for role in roles)
    periods = (spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS) for spec in specs)
    return max((int(p) for p in periods), default=DEFAULT_GRACE_SECONDS) + _MARGIN_SECONDS


def has_drained(context: PlanContext, state: GangState) -> bool:
    """Return whether all pods of the attempt before a planned restart have ended; the next attempt waits for that."""
    restarting = find_condition(context.view.status, ConditionType.RESTARTING)
    is_planned = restarting is not None and restarting.status == "True" and restarting.reason in _PLANNED
    roles = {member.role for member in state.gang.members}
    return is_planned and all(p.ended for p in context.view.pods if p.role in roles)


def acknowledge(context: PlanContext, builder: PlanBuilder) -> None:
    """Record in the status which restart request this plan executes."""
    if context.view.stored.restarted_at and context.revision is not None:
        builder.set_fields(restarted_at=context.view.stored.restarted_at)
