"""The event about a replica for which the other replicas of its gang wait, from the report of the leader."""

from typing import Final

from tfdist.api.status import ConditionType
from tfdist.contract import Role
from tfdist.contract_reports import SlowReplica
from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event
from tfdist.reasons import EventReason
from tfdist.render.gang import Member
from tfdist.status.conditions import is_true
from tfdist.status.progress import slow_replica_of

_INPUT_SHARE: Final = 0.5
"""Share of the additional time from which the message names the input as its cause."""


def slow_replica_event(context: PlanContext, state: GangState) -> Event | None:
    """Return the event about the slow replica of a running training gang; None without one, or if the status has it.

    Its name has the replica and the attempt: a repetition is the same event.
    """
    report, leader = context.view.runtime.report, state.leader
    if report is None or leader is None or report.content.attempt != leader.attempt:
        return None
    slow = slow_replica_of(report.content, state.gang)
    if slow is None or is_true(context.view.status, ConditionType.STALLED):
        return None
    name = Member(slow.role, slow.index).name
    stored = context.view.status.progress
    if stored and stored.slowest_replica == name:
        return None
    identity = f"{state.attempt}-{name}"
    return Event(EventReason.SLOW_REPLICA, _text(state, slow), warning=True, identity=identity, is_reported=True)


def _text(state: GangState, slow: SlowReplica) -> str:
    pod = next((p for p in state.pods if (p.role, p.index) == (slow.role, slow.index)), None)
    waits = "" if any(member.role is Role.PS for member in state.gang.members) else " and wait for it"
    replica = Member(slow.role, slow.index).name
    location = f" (pod {pod.name}, node {pod.node})" if pod else ""
    text = (
        f"{replica}{location} takes {_millis(slow.own_millis)} for its part of a step, the other replicas take "
        f"{_millis(slow.others_millis)}{waits}"
    )
    if slow.input_wait_millis > _INPUT_SHARE * (slow.own_millis - slow.others_millis):
        return f"{text}; {_millis(slow.input_wait_millis)} of that is waiting for input: check its storage"
    return f"{text}: check the load and the hardware of its node"


def _millis(value: float) -> str:
    return f"{value:.4g} ms"
