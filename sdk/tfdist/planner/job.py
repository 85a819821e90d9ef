"""Plans the life cycle of a job: training with an evaluator in parallel, then evaluation, then the end."""

from datetime import datetime

from tfdist.api.policies import is_foreign
from tfdist.api.status import ConditionType
from tfdist.contract import Task
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView
from tfdist.planner import evaluation
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.finished_job import clean_up_finished_job
from tfdist.planner.gang import plan_gang
from tfdist.planner.invalid_spec import context_of_invalid_job, set_validity, stays_suspended
from tfdist.planner.messages import running_text
from tfdist.planner.partial_gang import has_released, release_with
from tfdist.planner.plan import Event, GangDecision, GangFailure, Plan
from tfdist.planner.planned_restart import acknowledge
from tfdist.planner.revision import SpecRevision
from tfdist.planner.slow_replica import slow_replica_event
from tfdist.planner.success_policy import is_job_complete, meets_success_policy
from tfdist.planner.suspend import resume_conditions, suspend_job, with_next_attempts
from tfdist.planner.trained_alone import report_training_alone
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName
from tfdist.render.installation import Installation
from tfdist.status.conditions import Condition, is_true
from tfdist.status.phase import is_terminal
from tfdist.status.update import compose_status
from tfdist.timestamps import rfc3339
from tfdist.validation.errors import summary


def plan(view: JobView, now: datetime, installation: Installation) -> Plan:
    """Return the plan of one reconcile of a job.

    Args:
        view: the observed state of the job.
        now: the current time, with a time zone.
        installation: the settings of the installation.
    """
    if view.stored.deleting or is_foreign(view.stored.managed_by):
        return Plan()
    # A finished job is never planned again, even if its specification has become invalid since.
    if is_terminal(view.status):
        return clean_up_finished_job(view, now, installation.settle_seconds)
    if view.job is None:
        context = context_of_invalid_job(view, now, installation)
        if context is None:
            return _invalid(view, now)
    else:
        revision = SpecRevision(view.job, view.generation, view.stored.template)
        context = PlanContext(view, view.job, now, installation, revision)
    # The queue of Kueue stops a job as a suspension does (ADR 38); a complete job has nothing left to stop.
    stops = context.spec.run_policy.suspend or stays_suspended(context) or context.queue_wait is not None
    is_suspended = stops and not is_job_complete(context)
    # Resumed before its pods have ended: their deletion must not count as a failure of the new attempt.
    context = context if is_suspended else with_next_attempts(context)
    builder = PlanBuilder(context)
    # An invalid job keeps its deadlines and can be suspended: it runs with its last valid specification (ADR 22).
    set_validity(context, builder)
    if is_suspended:
        return suspend_job(context, builder)
    return _plan_running(context, builder)


def _invalid(view: JobView, now: datetime) -> Plan:
    """Report the field errors of a job that has not started."""
    message = summary(view.problems)
    condition = Condition(ConditionType.INVALID, True, ConditionReason.INVALID_SPEC, message)
    status = compose_status(view, (), rfc3339(now), conditions=(condition,))
    if status == view.status:
        return Plan()
    event = Event(EventReason.INVALID, message, warning=True, identity=str(view.generation))
    return Plan(status=status.to_json(), events=(event,))


def _plan_running(context: PlanContext, builder: PlanBuilder) -> Plan:
    """Plan a job that is neither invalid nor suspended."""
    builder.set_conditions(*resume_conditions(context, builder))
    acknowledge(context, builder)
    if context.view.status.active_since is None:
        builder.set_fields(active_since=rfc3339(context.now))
    deadline_failure = _check_active_deadline(context, builder)
    if context.spec.task is Task.EVALUATE:
        return _evaluate_only(context, builder, deadline_failure)
    training = context.states[GangName.TRAINING]
    # Success before failure: what fails after the success policy is met does not restart training.
    if meets_success_policy(context, training):
        return evaluation.evaluate_after_training(context, builder, training, deadline_failure)
    return _train(context, builder, training, deadline_failure)


def _train(
    context: PlanContext, builder: PlanBuilder, training: GangState, deadline_failure: GangFailure | None
) -> Plan:
    decision = plan_gang(context, training)
    # A failure of the gang explains more than the deadline that passed at the same time.
    if deadline_failure and not decision.failure:
        builder.track_gang(training)
        return builder.fail(deadline_failure)
    builder.add_decision(decision)
    if decision.failure:
        return builder.fail(decision.failure)
    if _starts_running(context, decision):
        if context.view.status.start_time is None:
            builder.set_fields(start_time=rfc3339(context.now))
        builder.record_event(_running_event(decision.state))
    slow = slow_replica_event(context, decision.state) if _runs(decision) else None
    if slow is not None:
        builder.record_event(slow)
    report_training_alone(context, builder, decision.state)
    evaluator = context.states.get(GangName.EVALUATOR)
    if evaluator is not None and has_released(decision):
        # The evaluator alone needs no node: it would take one that the waiting jobs need.
        builder.track_gang(release_with(evaluator, decision.state))
    elif evaluator is not None:
        evaluation.run_evaluator(context, builder, evaluator)
    return builder.build()


def _starts_running(context: PlanContext, decision: GangDecision) -> bool:
    """Return whether all replicas run for the first time since the last start."""
    return _runs(decision) and not is_true(context.view.status, ConditionType.RUNNING)


def _runs(decision: GangDecision) -> bool:
    return any(c.type is ConditionType.RUNNING and c.status for c in decision.conditions)


def _evaluate_only(context: PlanContext, builder: PlanBuilder, deadline_failure: GangFailure | None) -> Plan:
    """Plan a job of task `Evaluate`: it has an evaluation gang only."""
    text = "the job evaluates only (task: Evaluate)"
    builder.set_conditions(Condition(ConditionType.RUNNING, False, ConditionReason.EVALUATE_ONLY, text))
    state = context.states[GangName.EVALUATION]  # the models guarantee that there are workers
    if state.leader_succeeded:
        return evaluation.succeed(context, builder, None, state)
    decision = plan_gang(context, state)
    failure = decision.failure or deadline_failure
    if failure:
        builder.add_decision(decision) if decision.failure else builder.track_gang(state)
        builder.set_conditions(Condition(ConditionType.EVALUATED, False, failure.reason, failure.message))
        return builder.fail(failure)
    builder.add_decision(decision)
    if decision.state.record.has_run and context.view.status.start_time is None:
        builder.set_fields(start_time=rfc3339(context.now))
        builder.record_event(_running_event(decision.state))
    return builder.build()


def _check_active_deadline(context: PlanContext, builder: PlanBuilder) -> GangFailure | None:
    """Return the failure of a job that exceeds activeDeadlineSeconds; else requeue it for the deadline."""
    limit = context.spec.run_policy.active_deadline_seconds
    since = context.view.status.active_since
    if limit is None or since is None:
        builder.requeue_after(limit)
        return None
    remaining = limit - context.seconds_since(since)
    if remaining > 0:
        builder.requeue_after(remaining)
        return None
    text = f"the job was active for longer than runPolicy.activeDeadlineSeconds, {limit} s, since {since}"
    return GangFailure(ConditionReason.ACTIVE_DEADLINE_EXCEEDED, text)


def _running_event(state: GangState) -> Event:
    leader = state.gang.leader.name
    text = f"{running_text(state)}; {leader} leads" if state.all_started else "the first replicas run"
    return Event(EventReason.RUNNING, text, identity=str(state.attempt))
