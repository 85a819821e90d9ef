"""Jobs whose pods the API server rejects as invalid: only another specification, or another policy, helps.

Some rules are unknown to the validation, such as the admission policies of a cluster: the API server applies them when
the first pod is created. The job is `Invalid` then, as with an invalid manifest.
"""

from dataclasses import replace

from tfdist.api.status import ConditionType
from tfdist.contract import Task
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView
from tfdist.outcome import find_condition
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event, GangDecision
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName
from tfdist.status.conditions import Condition, is_true


def is_rejected(view: JobView) -> bool:
    """Return whether the API server rejects pods of this generation, by this process's records or by the status."""
    if view.runtime.is_rejected(view.generation):
        return True
    invalid = find_condition(view.status, ConditionType.INVALID)
    if invalid is None or invalid.status != "True":
        return False
    has_running_pods = any(not p.ended and not p.deleting for p in view.pods)
    is_current = invalid.observed_generation == view.generation
    return invalid.reason == ConditionReason.POD_REJECTED and is_current and not has_running_pods


def with_rejection(context: PlanContext, state: GangState, decision: GangDecision) -> GangDecision:
    """Return the decision about a gang that lacks pods, with `Invalid` if they are rejected and it is the main gang.

    A new leader has not received the response of the API server yet, so it leaves the conditions unchanged.
    """
    evaluates_only = context.spec.task is Task.EVALUATE
    if not (state.gang.name is GangName.TRAINING or evaluates_only) or not is_rejected(context.view):
        return decision
    # Only the status knows of the rejection: keep its conditions until this process has the response.
    if not context.view.runtime.is_rejected(context.view.generation):
        return replace(decision, conditions=())
    error = context.view.runtime.create_error
    text = f"the API server rejects the pods: {error}; correct the specification and apply it"
    events = () if is_true(context.view.status, ConditionType.INVALID) else (_event(context, text),)
    invalid = Condition(ConditionType.INVALID, True, ConditionReason.POD_REJECTED, text)
    return replace(decision, conditions=(*decision.conditions, invalid), events=(*decision.events, *events))


def _event(context: PlanContext, text: str) -> Event:
    return Event(EventReason.INVALID, text, warning=True, identity=str(context.view.generation))
