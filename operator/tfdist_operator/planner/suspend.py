"""Suspends and resumes: the pods go, the job stays, and the next attempt goes on from the last checkpoint."""

from collections.abc import Sequence
from dataclasses import replace

from tfdist.api.status import ConditionType
from tfdist.render.gang import GangName, gangs
from tfdist_operator.observed.record import stored_record
from tfdist_operator.planner.carry import Carry
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Event, Plan
from tfdist_operator.status.conditions import Condition, find
from tfdist_operator.status.phase import has_trained

SUSPENDING = "Suspending"
SUSPENDED = "Suspended"


def suspended(look: Look) -> Plan:
    """Return the plan of a job that is to stand still: its pods end, and later ones will be a new attempt."""
    carry = Carry(look)
    known = find(look.view.status, ConditionType.SUSPENDED)
    first = known is None or known["reason"] not in {SUSPENDING, SUSPENDED}
    for gang in gangs(look.job):
        record = stored_record(look.view.status, gang.name)
        if record is None:
            continue
        state = look.state(gang)
        if first and not _is_over(look, gang.name):
            state = replace(state, record=record.next_attempt(not_before=""))
        carry.know(state)
    left = [p for p in look.view.pods if not p.ended]
    carry.delete(left)
    if left:
        text = f"{len(left)} replicas save and stop"
        carry.say(Condition(ConditionType.SUSPENDED, False, SUSPENDING, text))
    else:
        carry.say(Condition(ConditionType.SUSPENDED, True, SUSPENDED, "suspended; runPolicy.suspend: false resumes it"))
    if first:
        carry.tell(Event("Suspended", "the job is suspended", identity=str(look.view.generation)))
    carry.say(*_stopped(look))
    carry.set("activeSince", None)
    return carry.finish()


def _is_over(look: Look, gang: GangName) -> bool:
    """Return whether a gang has done its work and is not started again."""
    return gang is GangName.TRAINING and has_trained(look.view.status)


def _stopped(look: Look) -> Sequence[Condition]:
    text = "the job is suspended"
    told = []
    for kind in (ConditionType.RUNNING, ConditionType.PODS_READY, ConditionType.RESTARTING):
        remembers = kind is ConditionType.RUNNING and has_trained(look.view.status)
        if find(look.view.status, kind) is not None and not remembers:
            told.append(Condition(kind, False, SUSPENDED, text))
    return told


def resumed(look: Look, carry: Carry) -> Sequence[Condition]:
    """Return what is to be said of a job that was suspended and is so no longer."""
    known = find(look.view.status, ConditionType.SUSPENDED)
    if known is None or known["reason"] not in {SUSPENDING, SUSPENDED}:
        return ()
    carry.tell(Event("Resumed", "the job is resumed", identity=str(look.view.generation)))
    return (Condition(ConditionType.SUSPENDED, False, "Resumed", "the job is resumed"),)
