"""What counts as success: of training, and of the whole job."""

from collections.abc import Mapping
from typing import Any

from tfdist.api.policies import SuccessPolicy
from tfdist.api.status import ConditionType
from tfdist.render.gang import GangName, gangs
from tfdist_operator.observed.gang import GangState
from tfdist_operator.planner.look import Look
from tfdist_operator.status.conditions import Condition
from tfdist_operator.status.phase import TRAINED, has_trained


def training_succeeded(look: Look, training: GangState) -> bool:
    """Return whether training has succeeded: the status remembers it, or those who decide have ended so."""
    if has_trained(look.view.status):
        return True
    if look.spec.success_policy is SuccessPolicy.ALL_WORKERS:
        return training.all_succeeded
    return training.leader_succeeded


def is_over(look: Look, state: GangState) -> bool:
    """Return whether a gang has done its work and is not started again.

    An evaluator that ended before training did has not: more checkpoints follow.
    """
    if state.gang.name is GangName.TRAINING:
        return training_succeeded(look, state)
    return state.leader_succeeded and _nothing_to_train(look)


def all_done(look: Look) -> bool:
    """Return whether a job has done all it was to do, though the status does not say so yet."""
    return all(is_over(look, look.state(gang)) for gang in gangs(look.job))


def _nothing_to_train(look: Look) -> bool:
    training = (gang for gang in gangs(look.job) if gang.name is GangName.TRAINING)
    return all(training_succeeded(look, look.state(gang)) for gang in training)


def trained(look: Look, progress: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return the condition that remembers a success of training, where the status does not hold it yet."""
    training = next((gang for gang in gangs(look.job) if gang.name is GangName.TRAINING), None)
    if training is None or has_trained(look.view.status) or not training_succeeded(look, look.state(training)):
        return ()
    return (Condition(ConditionType.RUNNING, False, TRAINED, training_text(progress), anew=True),)


def training_text(progress: Mapping[str, Any]) -> str:
    """Return what is said of training that has succeeded."""
    steps = progress.get("step")
    return "training succeeded" if steps is None else f"training succeeded after {steps} steps"
