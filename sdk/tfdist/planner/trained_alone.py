"""The condition and the event of a job whose workers each train a model of their own, as the leader reports it."""

from tfdist.api.status import ConditionType
from tfdist.messages import count
from tfdist.observed.gang_state import GangState
from tfdist.outcome import find_condition
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event
from tfdist.reasons import ConditionReason, EventReason
from tfdist.status.conditions import Condition
from tfdist.termination import termination_message


def report_training_alone(context: PlanContext, builder: PlanBuilder, training: GangState) -> None:
    """Set the condition, and record the event once for each attempt; a later attempt may train together again."""
    alone = _trains_alone(context, training)
    stored = find_condition(context.view.status, ConditionType.DEGRADED)
    is_set = stored is not None and stored.reason == ConditionReason.TRAINED_ALONE and stored.status == "True"
    if alone is None or alone == is_set:
        return
    if not alone:
        text = "the workers train one model"
        builder.set_conditions(Condition(ConditionType.DEGRADED, False, ConditionReason.TRAINED_ALONE, text))
        return
    workers = count(len(training.gang.members), "worker")
    text = f"fit runs on each of {workers} alone; create, load and compile the model in strategy.scope()"
    builder.set_conditions(Condition(ConditionType.DEGRADED, True, ConditionReason.TRAINED_ALONE, text))
    identity = str(training.attempt)
    builder.record_event(Event(EventReason.TRAINED_ALONE, text, warning=True, identity=identity, is_reported=True))


def _trains_alone(context: PlanContext, training: GangState) -> bool | None:
    """Return whether the leader trains alone, by its termination message or report; None before it has trained."""
    leader, report = training.leader, context.view.runtime.report
    if leader is None or len(training.gang.members) == 1:
        return None
    content = termination_message(leader.message) if leader.ended else report.content if report else None
    if content is None or content.attempt != leader.attempt or content.step is None:
        return True if content and content.trains_alone and content.attempt == leader.attempt else None
    return bool(content.trains_alone)
