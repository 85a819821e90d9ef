"""A gang of which only some replicas have a node releases these nodes after a while, if other jobs wait for nodes.

Without a gang scheduler several jobs can each hold a part of the nodes that they need, and wait for one another for
ever. With one, nothing is released: all or none is its work. The oldest of the jobs that wait keeps its nodes for twice
as long as the others, so that it gets those that they release; then it releases its own, because it may need more nodes
than there are. The next start is delayed by a time that differs from job to job and doubles with each release, so that
jobs do not collide again, and a job that never fits leaves the nodes to the others for most of the time. Kueue's
`waitForPodsReady` does the same for admitted workloads.
"""

import zlib
from dataclasses import replace
from datetime import timedelta
from typing import Final

from tfdist.messages import count
from tfdist.observed.gang_state import GangState, gang_state
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event, GangDecision, not_ready
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import start_minimum
from tfdist.scheduling.choice import scheduler_of
from tfdist.timestamps import rfc3339

DEFAULT_TIMEOUT_SECONDS: Final = 300
_MAX_DOUBLINGS: Final = 4
_RECHECKS: Final = 10
"""How often within a timeout a gang checks again whether other jobs wait: no watch event of the job reports that."""


def release_nodes(context: PlanContext, state: GangState) -> GangDecision | None:
    """Return the decision to release the nodes of a gang that is scheduled in part; None if it is to wait."""
    remaining = _remaining_seconds(context, state)
    if remaining is None or remaining > 0 or not context.view.contention.others:
        return None
    retry_after = rfc3339(context.now + timedelta(seconds=_delay_seconds(context, state)))
    text = _text(context, state, retry_after)
    record = state.record.next_attempt(retry_after=retry_after).changed(released=state.record.released + 1)
    next_state = gang_state(state.gang, record, context.view.pods)
    identity = f"{state.gang.name}-{record.attempt}"
    return GangDecision(
        next_state,
        conditions=(not_ready(ConditionReason.PODS_READY_TIMEOUT, text),),
        events=(Event(EventReason.PODS_READY_TIMEOUT, text, identity=identity),),
        requeue_after_seconds=_delay_seconds(context, state),
    )


def seconds_until_release(context: PlanContext, state: GangState) -> float | None:
    """Return when to call `release_nodes` again; None for a gang that is not scheduled in part."""
    remaining = _remaining_seconds(context, state)
    return None if remaining is None else remaining if remaining > 0 else _timeout_seconds(context) / _RECHECKS


def has_released(decision: GangDecision) -> bool:
    """Return whether the decision is one of `release_nodes`."""
    return any(c.reason == ConditionReason.PODS_READY_TIMEOUT for c in decision.conditions)


def release_with(state: GangState, training: GangState) -> GangState:
    """Return the state of an evaluator that releases its node too: it waits for the next start of training."""
    return replace(state, record=state.record.next_attempt(retry_after=training.record.retry_after))


def _remaining_seconds(context: PlanContext, state: GangState) -> float | None:
    """Return how many seconds a partly scheduled gang keeps its nodes; None if enough replicas, or none, have one."""
    scheduled, required = sum(1 for pod in state.pods if pod.node), start_minimum(context.job, state.gang)
    if state.record.has_run or scheduler_of(state.record) is not None or not 0 < scheduled < required:
        return None
    since = _partial_since(state)
    limit = _timeout_seconds(context) * (2 if context.view.contention.is_oldest else 1)
    return limit - context.seconds_since(since) if since else None


def _partial_since(state: GangState) -> str:
    """Return since when (RFC 3339) a gang holds nodes while a replica has none; "" if none waits for a node.

    A gang that gets its nodes at last is scheduled in part only between two watch events, however long it has waited.
    The times are the API server's, so the next controller counts on.
    """
    waiting = [pod.created_at for pod in state.unschedulable if pod.created_at]
    held = [pod.scheduled_at or pod.created_at for pod in state.pods if pod.node]
    return max(min(waiting), min(held)) if waiting and held else ""


def _timeout_seconds(context: PlanContext) -> int:
    return context.spec.scheduling.timeout_seconds or DEFAULT_TIMEOUT_SECONDS


def _delay_seconds(context: PlanContext, state: GangState) -> float:
    """Return the delay of the next start: 0.5 to 1.5 timeouts, doubled with each further release."""
    key = f"{context.job.metadata.uid}:{state.attempt}"
    spread = 0.5 + zlib.crc32(key.encode()) / 2**32
    return float(_timeout_seconds(context) * 2 ** min(state.record.released, _MAX_DOUBLINGS) * spread)


def _text(context: PlanContext, state: GangState, retry_after: str) -> str:
    scheduled, pod = sum(1 for pod in state.pods if pod.node), state.unschedulable[0]
    seconds = round(context.seconds_since(_partial_since(state)))
    others = count(context.view.contention.others, "other job")
    return (
        f"{state.gang.name} released the nodes of {count(scheduled, 'replica')}, because {pod.replica} had none for "
        f"{seconds} s (scheduling.timeoutSeconds: {_timeout_seconds(context)}) and {others} wait for nodes: "
        f"{pod.message or pod.reason}; it starts again at {retry_after}"
    )
