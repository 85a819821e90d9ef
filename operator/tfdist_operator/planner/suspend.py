"""Suspends and resumes: the pods go, the job stays, and the next attempt goes on from the last checkpoint."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tfdist.api.status import ConditionType
from tfdist.render.gang import gangs
from tfdist_operator.observed.record import stored_record
from tfdist_operator.planner.carry import Carry
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Event, Plan
from tfdist_operator.planner.success import is_over, trained
from tfdist_operator.status.conditions import Condition, find
from tfdist_operator.status.phase import SUSPENDED, SUSPENDING, has_trained, is_standing_still


def suspended(look: Look, carry: Carry) -> Plan:
    """Return the plan of a job that is to stand still: its pods end, and later ones will be a new attempt."""
    first = not is_standing_still(look.view.status)
    for gang in gangs(look.job):
        if stored_record(look.view.status, gang.name) is None:
            continue
        state = look.state(gang)
        if first and not is_over(look, state):
            state = replace(state, record=state.record.next_attempt(not_before=""))
        carry.know(state)
    carry.say(*trained(look, carry.progress()), *_stopped(look))
    left = [p for p in look.view.pods if not p.ended]
    carry.delete(left)
    if left:
        carry.say(Condition(ConditionType.SUSPENDED, False, SUSPENDING, "the replicas save and stop"))
    else:
        text = "the job is suspended; runPolicy.suspend: false resumes it"
        carry.say(Condition(ConditionType.SUSPENDED, True, SUSPENDED, text))
    if first:
        carry.tell(Event("Suspended", "the job is suspended", identity=str(look.view.generation)))
    carry.set("activeSince", None)
    return carry.finish()


def _stopped(look: Look) -> Iterator[Condition]:
    for kind in (ConditionType.RUNNING, ConditionType.PODS_READY, ConditionType.RESTARTING, ConditionType.STALLED):
        remembers = kind is ConditionType.RUNNING and (has_trained(look.view.status) or trained(look, {}))
        if find(look.view.status, kind) is not None and not remembers:
            yield Condition(kind, False, SUSPENDED, "the job is suspended")


def resumed(look: Look, carry: Carry) -> Sequence[Condition]:
    """Return what is to be said of a job that was suspended and is so no longer."""
    if not is_standing_still(look.view.status):
        return ()
    carry.tell(Event("Resumed", "the job is resumed", identity=str(look.view.generation)))
    return (Condition(ConditionType.SUSPENDED, False, "Resumed", "the job is resumed"),)
