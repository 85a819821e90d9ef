"""Conditions of training that lacks a replica: it waits for the replica, or continues without it."""

from tfdist.api.status import ConditionType
from tfdist.observed.gang_state import GangState, member_of
from tfdist.observed.pod import PodState
from tfdist.planner.context import PlanContext
from tfdist.planner.failure_policy import continues_without, is_independent
from tfdist.planner.messages import join_replicas
from tfdist.reasons import ConditionReason
from tfdist.render.gang import GangName
from tfdist.status.conditions import Condition, is_true


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
