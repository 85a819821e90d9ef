"""Suspends and resumes a job: its pods are deleted, and the next attempt continues from the last checkpoint.

The attempt continues until its last pod has ended: replicas that complete their work within the grace period count
as in any other attempt, and may complete the job. The next attempt is recorded when the job is suspended.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import ConditionType, JobCondition, Progress
from tfdist.observed.gang_state import GangState
from tfdist.outcome import find_condition
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.kueue import POSITION_SECONDS, uses_kueue
from tfdist.planner.plan import Event, Plan
from tfdist.planner.planned_restart import acknowledge
from tfdist.planner.success_policy import is_complete, is_job_complete, training_succeeded_condition
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName
from tfdist.scheduling.kueue import queue_name
from tfdist.scheduling.queue import QueueWait
from tfdist.status.conditions import Condition, is_true
from tfdist.status.phase import evaluation_failure, is_suspended_or_suspending, training_succeeded

_STOPPING: Final = frozenset({ConditionReason.SUSPENDING, ConditionReason.EVICTED})
_BEFORE_FIRST_POD: Final = frozenset({ConditionReason.GANG_SCHEDULER_MISSING, ConditionReason.GANG_SCHEDULER_UNKNOWN})
"""Reasons of `PodsReady` of a gang whose attempt waits to begin."""
_RESUMED: Final = {
    ConditionReason.RESUMED: EventReason.RESUMED,
    ConditionReason.ADMITTED: EventReason.ADMITTED,
}


def suspend_job(context: PlanContext, builder: PlanBuilder) -> Plan:
    """Return the plan of a suspended job: its pods end, and a resume starts a new attempt."""
    is_new = not is_suspended_or_suspending(context.view.status)
    running = [p for p in context.view.pods if not p.ended]
    is_stopping = bool(running) or any(p.sidecars_run for p in context.view.pods)
    # While pods end, their attempt goes on: a replica may still complete within its grace period.
    next_records = (
        {} if is_stopping or is_true(context.view.status, ConditionType.SUSPENDED) else _next_records(context)
    )
    for state in _started_gangs(context):
        builder.track_gang(replace(state, record=next_records.get(state.gang.name, state.record)))
    builder.set_conditions(*training_succeeded_condition(context, builder.progress()), *_stopped_conditions(context))
    builder.delete_pods(running)
    builder.set_conditions(_suspended_condition(context, stopping=is_stopping))
    # No watch event reports the position in the queue.
    if context.queue_wait and context.queue_wait.position:
        builder.requeue_after(POSITION_SECONDS)
    if is_new:
        builder.record_event(_event(context, stopping=is_stopping))
    builder.set_fields(active_since=None)
    acknowledge(context, builder)  # the attempt after the resume is the requested restart
    return builder.build()


def _suspended_condition(context: PlanContext, *, stopping: bool) -> Condition:
    """Return the condition of a job that the user suspends, or that its queue does not let run."""
    queue_wait = _queue_wait(context)
    if stopping:
        text = f"{queue_wait.message}; " if queue_wait else ""
        reason = ConditionReason.EVICTED if queue_wait else ConditionReason.SUSPENDING
        return Condition(ConditionType.SUSPENDED, False, reason, f"{text}the replicas save and stop")
    if queue_wait:
        return Condition(ConditionType.SUSPENDED, True, ConditionReason.QUEUED, queue_wait.message)
    text = "the job is suspended; runPolicy.suspend: false resumes it"
    return Condition(ConditionType.SUSPENDED, True, ConditionReason.SUSPENDED, text)


def _queue_wait(context: PlanContext) -> QueueWait | None:
    """Return why the queue does not admit a job; None for a job that the user suspends."""
    return None if context.spec.run_policy.suspend else context.queue_wait


def _event(context: PlanContext, *, stopping: bool) -> Event:
    queue_wait = _queue_wait(context)
    if queue_wait is None:
        return Event(EventReason.SUSPENDED, "the job is suspended", identity=str(context.view.generation))
    reason = EventReason.EVICTED if stopping else EventReason.QUEUED
    return Event(reason, queue_wait.message, identity=_event_identity(context))


def _event_identity(context: PlanContext) -> str:
    """Return the identity of events, which changes with each wait in the queue."""
    return f"{context.view.generation}-{context.view.status.attempt or 0}"


def _stopped_conditions(context: PlanContext) -> Iterator[Condition]:
    for kind in (ConditionType.RUNNING, ConditionType.PODS_READY, ConditionType.RESTARTING, ConditionType.STALLED):
        is_final = kind is ConditionType.RUNNING and (
            training_succeeded(context.view.status) or training_succeeded_condition(context, Progress())
        )
        if find_condition(context.view.status, kind) is not None and not is_final:
            yield Condition(kind, False, ConditionReason.SUSPENDED, "the job is suspended")


def resume_conditions(context: PlanContext, builder: PlanBuilder) -> Sequence[Condition]:
    """Return the conditions of a job that is resumed now; none of any other job, or of one that is complete."""
    if not is_suspended_or_suspending(context.view.status) or is_job_complete(context):
        return ()
    reason, text = ConditionReason.RESUMED, "the job is resumed"
    if uses_kueue(context.view, context.job):
        reason, text = ConditionReason.ADMITTED, f"queue {queue_name(context.job)} has admitted the job"
    builder.record_event(Event(_RESUMED[reason], text, identity=_event_identity(context)))
    failure = evaluation_failure(context.view.status)
    evaluation = Condition(
        ConditionType.EVALUATED, False, ConditionReason.RESUMED, f"evaluation begins again; before: {_before(failure)}"
    )
    return (
        Condition(ConditionType.SUSPENDED, False, reason, text),
        *((evaluation,) if failure else ()),
    )


def with_next_attempts(context: PlanContext) -> PlanContext:
    """Return the context of a job that is resumed before its pods have ended: its gangs are in their next attempt.

    The pods of the attempt that the suspension ended are being deleted, which must not count as a failure.
    """
    suspended = find_condition(context.view.status, ConditionType.SUSPENDED)
    if suspended is None or suspended.reason not in _STOPPING or is_job_complete(context):
        return context
    return replace(context, next_records=_next_records(context))


def _started_gangs(context: PlanContext) -> Iterator[GangState]:
    """Yield the states of the gangs that have started."""
    return (state for name, state in context.states.items() if name in context.records)


def _next_records(context: PlanContext) -> Mapping[GangName, GangStatus]:
    """Return the records of the attempts after the suspension, of the gangs that are not complete."""
    incomplete = (state for state in _started_gangs(context) if not is_complete(context, state))
    return {state.gang.name: _next_record(context, state) for state in incomplete}


def _before(known: JobCondition | None) -> str:
    return known.message if known else ""


def _next_record(context: PlanContext, state: GangState) -> GangStatus:
    """Return the record of the attempt after the suspension; the restart limit of a failed evaluator starts again.

    An attempt that has waited for its gang scheduler has not begun, and begins after the suspension.
    """
    pods_ready = find_condition(context.view.status, ConditionType.PODS_READY)
    has_begun = bool(state.pods) or state.record.has_run or bool(state.record.completed)
    # Waiting for a scheduler started no pod: a new number would look like a restart.
    if not has_begun and pods_ready is not None and pods_ready.reason in _BEFORE_FIRST_POD:
        return state.record
    record = state.record.next_attempt()
    if state.gang.name is GangName.EVALUATOR and evaluation_failure(context.view.status):
        return record.changed(since_checkpoint=0, uncounted_since_checkpoint=0)
    return record
