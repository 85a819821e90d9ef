"""Evaluation: the evaluator during training, the evaluation gang after it, and the outcome of the job."""

from collections.abc import Sequence

from tfdist.api.status import ConditionType, EvaluationResult
from tfdist.api.training import EVALUATOR_DEADLINE_SECONDS, EvaluationSpec
from tfdist.contract import Role
from tfdist.messages import count
from tfdist.observed.gang_state import GangState
from tfdist.outcome import find_condition
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.gang import plan_gang
from tfdist.planner.missing_results import missing_best_model, missing_of_training, report_what_had_no_effect
from tfdist.planner.plan import Event, GangFailure, Plan
from tfdist.planner.success_policy import training_succeeded_condition, training_text
from tfdist.planner.trained_alone import report_training_alone
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName
from tfdist.status.conditions import Condition
from tfdist.status.phase import evaluation_failure, is_suspended_or_suspending, training_succeeded
from tfdist.status.summary import number

_DEFAULT = EvaluationSpec()
"""Settings of an evaluator with a custom program, if the job has no `evaluation`."""


def run_evaluator(context: PlanContext, builder: PlanBuilder, state: GangState) -> None:
    """Run the evaluator during training; its failure does not affect training."""
    if _failure_during_training(context) is not None or state.leader_succeeded:
        builder.track_gang(state)
        builder.delete_pods(p for p in state.pods if not p.ended)
        return
    decision = plan_gang(context, state)
    builder.add_decision(decision)
    if decision.failure:
        builder.set_conditions(
            Condition(ConditionType.EVALUATED, False, decision.failure.reason, decision.failure.message)
        )
        builder.record_event(Event(EventReason.EVALUATION_FAILED, decision.failure.message, warning=True))


def evaluate_after_training(
    context: PlanContext, builder: PlanBuilder, training: GangState, late: GangFailure | None
) -> Plan:
    """Plan a job whose training succeeded: evaluate the final checkpoint, then finish the job."""
    builder.track_gang(training)
    if missing := missing_of_training(context, training):
        return builder.fail(missing)
    report_training_alone(context, builder, training)
    report_what_had_no_effect(context, builder, training)
    builder.set_conditions(*training_succeeded_condition(context, builder.progress()))
    _release(context, builder, training)
    evaluator, evaluation = map(context.states.get, (GangName.EVALUATOR, GangName.EVALUATION))
    failure_in_training = _failure_during_training(context)
    if failure_in_training is not None and evaluation is None:
        return _finish_failed(context, builder, failure_in_training)
    states = [state for state in (evaluator if failure_in_training is None else None, evaluation) if state is not None]
    for state in states:
        builder.track_gang(state)
    incomplete = [s for s in states if not s.leader_succeeded]
    if not incomplete:
        return succeed(context, builder, training, states[-1] if states else None)
    evaluation_deadline = _check_deadline(context, builder, incomplete)
    if (
        evaluation_deadline
        and not late
        and all(s.gang.name is GangName.EVALUATOR and _has_final_result(context, builder) for s in incomplete)
    ):
        return succeed(context, builder, training, states[-1], "was stopped at evaluation.deadlineSeconds")
    failure = late or evaluation_deadline
    if failure:
        return _finish_failed(context, builder, failure)
    for state in incomplete:
        decision = plan_gang(context, state)
        builder.add_decision(decision)
        if decision.failure:
            return _finish_failed(context, builder, decision.failure)
    return builder.build()


def succeed(
    context: PlanContext,
    builder: PlanBuilder,
    training: GangState | None,
    state: GangState | None,
    ended: str = "has ended",
) -> Plan:
    """Plan the success of a job.

    Args:
        context: of the job.
        builder: collects the plan.
        training: the gang that trained; None for task `Evaluate`.
        state: the gang that evaluated last; None if none did, but a script may have evaluated while it trained.
        ended: how that gang ended, for the message.
    """
    text = training_text(builder.progress()) if training else ""
    if state is not None:
        builder.track_gang(state)
    result = builder.evaluation().final
    if result:
        outcome, reason = _result_text(result), ConditionReason.EVALUATED
    else:
        outcome = f"the {state.gang.name} {ended} without a result" if state else ""
        reason = ConditionReason.NO_RESULT
    expected = state is not None and (state.gang.name is GangName.EVALUATION or context.spec.evaluation is not None)
    if result or expected:
        builder.set_conditions(Condition(ConditionType.EVALUATED, True, reason, outcome))
    if missing := missing_best_model(context, builder.exports(), ended):
        return builder.fail(missing)
    text = "; ".join(part for part in (text, outcome) if part)
    builder.set_conditions(Condition(ConditionType.SUCCEEDED, True, ConditionReason.SUCCEEDED, text))
    builder.record_event(Event(EventReason.SUCCEEDED, text))
    return builder.complete()


def _failure_during_training(context: PlanContext) -> GangFailure | None:
    """Return why the evaluator failed during training, if it did; a resumed job evaluates again."""
    condition = None if is_suspended_or_suspending(context.view.status) else evaluation_failure(context.view.status)
    return GangFailure(condition.reason, condition.message) if condition else None


def _finish_failed(context: PlanContext, builder: PlanBuilder, failure: GangFailure) -> Plan:
    """Finish a job whose evaluation failed; `evaluation.onFailure` decides, unless a model is missing now."""
    evaluation = context.spec.evaluation or _DEFAULT
    text = f"evaluation failed: {failure.message}"
    outcome = ConditionType.FAILED if evaluation.on_failure == "FailJob" else ConditionType.SUCCEEDED
    builder.set_conditions(Condition(ConditionType.EVALUATED, False, failure.reason, failure.message))
    if outcome is ConditionType.SUCCEEDED and (
        missing := missing_best_model(context, builder.exports(), f"has failed ({failure.message})")
    ):
        return builder.fail(missing)
    builder.set_conditions(Condition(outcome, True, ConditionReason.EVALUATION_FAILED, text))
    reason = EventReason.FAILED if outcome is ConditionType.FAILED else EventReason.SUCCEEDED
    builder.record_event(Event(reason, text, warning=True))
    return builder.complete()


def _check_deadline(context: PlanContext, builder: PlanBuilder, waiting: Sequence[GangState]) -> GangFailure | None:
    """Return the failure of an evaluation that exceeds its deadline after training; else set the timer for it.

    The time of a suspension does not count: the deadline starts again when the job is resumed.
    """
    limit = (context.spec.evaluation or _DEFAULT).deadline_seconds
    if limit is None and any(s.gang.name is GangName.EVALUATION for s in waiting):
        return None
    limit = limit or EVALUATOR_DEADLINE_SECONDS
    running = (
        find_condition(context.view.status, ConditionType.RUNNING) if training_succeeded(context.view.status) else None
    )
    active_since = context.view.status.active_since
    start = max(running.last_transition_time, active_since) if running and active_since else ""
    remaining = context.remaining_seconds(limit, start)
    if remaining > 0:
        builder.requeue_after(remaining)
        return None
    text = f"not finished {limit} s after training (evaluation.deadlineSeconds)"
    return GangFailure(ConditionReason.EVALUATION_DEADLINE_EXCEEDED, text)


def _release(context: PlanContext, builder: PlanBuilder, training: GangState) -> None:
    """Delete replicas that still run after the success of training, such as parameter servers, after a delay."""
    pods = [p for p in training.pods if not p.ended]
    running = find_condition(context.view.status, ConditionType.RUNNING)
    start = running.last_transition_time if running and training_succeeded(context.view.status) else None
    wait = context.installation.settle_seconds - (context.seconds_since(start) if start else 0.0)
    if not pods:
        return
    if wait > 0:
        builder.requeue_after(wait)
    else:
        builder.delete_pods(pods)


def _has_final_result(context: PlanContext, builder: PlanBuilder) -> bool:
    """Return whether the result of an evaluator that still runs is final.

    A custom evaluator is done when it ends or its deadline passes; the trainer, when it has evaluated the last
    checkpoint.
    """
    return not context.runs_trainer(Role.EVALUATOR) or builder.evaluation().final is not None


def _result_text(result: EvaluationResult) -> str:
    metrics = ", ".join(f"{name}={number(value)}" for name, value in sorted(result.metrics.items()))
    if result.examples is None:
        return f"evaluated at step {result.step}: {metrics}"
    model = "checkpoint" if result.checkpoint else "model"
    return f"evaluated {count(result.examples, 'example')} of the {model} at step {result.step}: {metrics}"
