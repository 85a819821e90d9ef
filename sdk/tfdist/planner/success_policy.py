"""The success policy: when training has succeeded, and when the whole job has."""

from tfdist.api.policies import SuccessPolicy
from tfdist.api.status import ConditionType, Progress
from tfdist.messages import count
from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.reasons import ConditionReason
from tfdist.render.gang import GangName
from tfdist.status.conditions import Condition
from tfdist.status.phase import training_succeeded


def meets_success_policy(context: PlanContext, training: GangState) -> bool:
    """Return whether training has succeeded: by the status, or by the replicas that `successPolicy` selects."""
    if training_succeeded(context.view.status):
        return True
    if context.spec.success_policy is SuccessPolicy.ALL_WORKERS:
        return training.all_succeeded
    return training.leader_succeeded


def is_complete(context: PlanContext, state: GangState) -> bool:
    """Return whether a gang is complete and does not start again.

    An evaluator that ended before training is not complete: more checkpoints follow.
    """
    if state.gang.name is GangName.TRAINING:
        return meets_success_policy(context, state)
    return state.leader_succeeded and _nothing_to_train(context)


def is_job_complete(context: PlanContext) -> bool:
    """Return whether all gangs of a job are complete, whether or not the status has it yet."""
    return all(is_complete(context, state) for state in context.states.values())


def _nothing_to_train(context: PlanContext) -> bool:
    training = context.states.get(GangName.TRAINING)
    return training is None or meets_success_policy(context, training)


def training_succeeded_condition(context: PlanContext, progress: Progress) -> tuple[Condition, ...]:
    """Return the condition that records the success of training; none if the status has it already."""
    training = context.states.get(GangName.TRAINING)
    if training is None or training_succeeded(context.view.status) or not meets_success_policy(context, training):
        return ()
    return (
        Condition(
            ConditionType.RUNNING,
            False,
            ConditionReason.TRAINING_SUCCEEDED,
            training_text(progress),
            reset_transition_time=True,
        ),
    )


def training_text(progress: Progress) -> str:
    """Return the message about the success of training."""
    steps = progress.step
    return "training succeeded" if steps is None else f"training succeeded after {count(steps, 'step')}"
