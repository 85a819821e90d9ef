"""Decides after a failure: which replicas start anew, when, or that the job has failed.

The restart domain follows the strategy: a gang restarts as a whole, but a worker of `ParameterServer` alone, for
its coordinator goes on without it.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from tfdist.api.status import ConditionType
from tfdist.api.v1 import Strategy
from tfdist.backoff import FREE_RESTARTS, restart_delay_seconds
from tfdist.contract import Role
from tfdist.contract_reports import GangEnd
from tfdist.exits import (
    APPLICATION_ERROR,
    DISRUPTION,
    LIMIT_EXCEEDED,
    PEER_LOST,
    REPEATED_ERROR,
    SECONDARY,
    STALLED,
    Action,
    Verdict,
    root_cause,
    verdict,
)
from tfdist.render import names
from tfdist.render.gang import GangName, Member
from tfdist_operator.observed.gang import GangState, gang_state, member_of
from tfdist_operator.observed.pod import PodSummary
from tfdist_operator.observed.record import GangRecord, replica_name
from tfdist_operator.planner import rounds
from tfdist_operator.planner.failures import record_of
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.lost_peer import questions, silent_peer, wait_for_the_cause
from tfdist_operator.planner.plan import Event
from tfdist_operator.planner.stall import Stall
from tfdist_operator.planner.step import Failed, Step, not_ready
from tfdist_operator.policy.words import describe, said
from tfdist_operator.status.clock import rfc3339
from tfdist_operator.status.conditions import Condition

MAX_AVOIDED: Final = 10

_REMEDIES: Final = {
    "UserError": "a restart would end the same: correct it and create the job anew",
    "FailurePolicy": "a rule of spec.failurePolicy ends the job",
    REPEATED_ERROR: "two attempts in a row ended with it, and none wrote a checkpoint: a restart would end the same",
}


@dataclass(frozen=True, slots=True)
class _Loss:
    """What ended an attempt of a domain: the root cause, where a pod still tells of it, and what it means."""

    cause: PodSummary | None
    member: Member
    verdict: Verdict
    text: str
    others: tuple[PodSummary, ...] = ()
    """Failures that followed from it."""
    stacks: str = ""


def end_of_attempt(look: Look, state: GangState) -> Step:
    """Return what follows from replicas that failed, are being deleted, or have vanished."""
    gave_up = rounds.end_of_launchers(state)
    if gave_up is not None:
        return _given_up(look, state, *gave_up)
    if rounds.lives_on(state):
        wait = rounds.farewell_seconds(look, state)
        return _replace_alone(look, state) if wait <= 0 else Step(state, requeue_after_seconds=wait)
    wait = wait_for_the_cause(look, state)
    if wait > 0:
        return Step(state, requeue_after_seconds=wait)
    losers = {member_of(p) for p in state.lost} | set(state.vanished)
    if _each_alone(look, state) and all(m.role is Role.WORKER for m in losers):
        return _replace_alone(look, state)
    asked, about = questions(look, state)
    if asked:
        return Step(state, ask=asked, ask_about=about)
    return _restart(look, state, [_loss(look, state)])


def _given_up(look: Look, state: GangState, pod: PodSummary, end: GangEnd) -> Step:
    """Return what follows when launchers gave up; the limits are the job's as they are now, not as they knew them."""
    state = replace(state, record=rounds.counted(state.record, end.restarts))
    final = end.reason != LIMIT_EXCEEDED
    meaning = Verdict(end.reason, Action.FAIL) if final else verdict(pod, look.spec.failure_policy)
    step = _restart(look, state, [_Loss(pod, Member(end.role, end.index), meaning, describe(pod))])
    if rounds.is_told(look, pod, end):
        return replace(step, failures=())
    name = names.pod_name(look.job.metadata.name, end.role, end.index, pod.attempt)
    who = {"role": str(end.role), "index": end.index, "pod": name, "round": end.round}
    return replace(step, failures=tuple(f | who for f in step.failures))


def stalled(look: Look, state: GangState, stall: Stall) -> Step:
    """Return the restart of a gang that stands still; the replica that is behind is named."""
    behind = next((p for p in state.pods if replica_name(member_of(p)) == stall.evidence.behind), state.pods[0])
    text = f"no step was completed for {stall.seconds:.0f} s; {replica_name(member_of(behind))} is behind"
    where = f" (pod {behind.name}{f', node {behind.node}' if behind.node else ''})"
    loss = _Loss(behind, member_of(behind), STALLED, text + where, stacks=stall.evidence.stacks)
    step = _restart(look, state, [loss])
    standing = Condition(ConditionType.STALLED, True, "NoProgress", text)
    told = Event("Stalled", text, warning=True, identity=str(state.attempt))
    return replace(step, conditions=(*step.conditions, standing), events=(told, *step.events))


def resized(look: Look, state: GangState, sizes: str) -> Step:
    """Return the restart of a gang whose pods were told of another number of replicas."""
    record = state.record.next_attempt(not_before="")
    following = gang_state(state.gang, record, look.view.pods)
    text = f"the {state.gang.name} was resized, {sizes}: attempt {record.attempt} follows"
    told = Event("Restarting", text, identity=f"{state.gang.name}-{record.attempt}", cause="Resized")
    conditions = _said(state, record, "Resized", text, alone=False)
    return Step(following, create=following.missing, conditions=conditions, events=(told,))


def _each_alone(look: Look, state: GangState) -> bool:
    return look.spec.strategy is Strategy.PARAMETER_SERVER and state.gang.name is GangName.TRAINING


def _loss(look: Look, state: GangState) -> _Loss:
    """Return the root cause of the end of an attempt of all members."""
    policy = look.spec.failure_policy
    silent = silent_peer(look, state)
    if silent is not None:
        who = f"{replica_name(member_of(silent))} (pod {silent.name}, node {silent.node})"
        text = f"{who} stands still and does not answer; its peers have lost it: {describe(state.lost[0])}"
        return _Loss(silent, member_of(silent), STALLED, text, tuple(state.lost))
    cause = root_cause(state.lost, policy) if state.lost else None
    meaning = verdict(cause, policy) if cause else DISRUPTION
    if cause is None or (state.vanished and meaning.reason == PEER_LOST):
        return _vanished(state.vanished[0], state.vanished, state.lost)
    others = tuple(p for p in state.lost if p is not cause)
    return _Loss(cause, member_of(cause), meaning, describe(cause), others)


def _vanished(first: Member, members: Sequence[Member], others: Sequence[PodSummary] = ()) -> _Loss:
    gone = ", ".join(map(replica_name, members))
    return _Loss(None, first, DISRUPTION, f"the pod of {gone} was deleted while it ran", tuple(others))


def _replace_alone(look: Look, state: GangState) -> Step:
    """Return the replacement of each lost replica by itself, each counted by itself."""
    policy = look.spec.failure_policy
    losses = [_Loss(p, member_of(p), verdict(p, policy), describe(p)) for p in state.lost]
    losses += [_vanished(m, (m,)) for m in state.vanished]
    return _restart(look, state, losses, alone=True)


def _restart(look: Look, state: GangState, losses: Sequence[_Loss], *, alone: bool = False) -> Step:
    """Count the losses and begin the next attempt, of all members or of each lost one alone."""
    newest = look.newest_checkpoint(state)
    record = state.record
    is_new = newest > record.checkpoint_step
    if is_new:
        record = replace(record, since_checkpoint=0, free_since_checkpoint=0, checkpoint_step=newest)
    failures: list[dict[str, Any]] = []
    counts = False
    for loss in losses:
        meaning = _repeated(look, state, loss, is_new=is_new)
        following, counted = _counted(record, meaning)
        counts = counts or counted
        failures += _records(look, state, loss, counted=counted)
        failed = _final(look, loss, meaning, following)
        if failed:
            return Step(replace(state, record=record), failures=tuple(failures), failed=failed)
        record = following
    record, avoided = _avoiding(look, state, record, losses)
    following = _started_anew(look, state, record, losses, counts=counts, alone=alone)
    return _next(look, state, following, losses, tuple(failures), avoided, alone=alone)


def _final(look: Look, loss: _Loss, meaning: Verdict, following: GangRecord) -> Failed | None:
    """Return the end of the gang, where a loss means it or one restart more would exceed the limit."""
    limit = look.spec.run_policy.backoff_limit
    ended = loss.cause is not None and loss.cause.ended
    log = f"; its log: kubectl logs -n {look.job.metadata.namespace} {loss.cause.name}" if loss.cause and ended else ""
    if meaning.action is Action.FAIL:
        remedy = _REMEDIES.get(meaning.reason, "")
        return Failed(meaning.reason, f"{loss.text}{remedy and f'; {remedy}'}{log}")
    if following.since_checkpoint > limit:
        spent = f"no restart is left of the {limit} that runPolicy.backoffLimit allows without a new checkpoint"
        return Failed(LIMIT_EXCEEDED, f"{loss.text}; {spent}{log}")
    return None


def _repeated(look: Look, state: GangState, loss: _Loss, *, is_new: bool) -> Verdict:
    """Return the verdict on a loss, which is final when the very same ended the attempt before."""
    last = look.last_root_cause(state.gang)
    if loss.verdict.reason != APPLICATION_ERROR or loss.cause is None or last is None or is_new:
        return loss.verdict
    words = said(loss.cause)[:1024] if loss.cause.message.strip() else ""  # silence tells nothing
    same = words and last["message"] == words and last.get("exitCode") == loss.cause.exit_code
    return Verdict(REPEATED_ERROR, Action.FAIL) if same else loss.verdict


def _counted(record: GangRecord, meaning: Verdict) -> tuple[GangRecord, bool]:
    """Return the record with one more restart, and whether that counts against the limit."""
    if meaning.action is Action.FAIL:
        return record, False
    free = meaning.action is Action.RESTART_UNCOUNTED
    if free and record.free_since_checkpoint < FREE_RESTARTS:
        more = record.free_since_checkpoint + 1
        return replace(record, uncounted=record.uncounted + 1, free_since_checkpoint=more), False
    return replace(record, counted=record.counted + 1, since_checkpoint=record.since_checkpoint + 1), True


def _avoiding(look: Look, state: GangState, record: GangRecord, losses: Sequence[_Loss]) -> tuple[GangRecord, str]:
    """Return the record with a node to avoid, where two root causes in a row were on it, and that node."""
    last = look.last_root_cause(state.gang) or {}
    nodes = [last.get("node", ""), *(loss.cause.node if loss.cause else "" for loss in losses)]
    twice = (a for a, b in itertools.pairwise(nodes) if a and a == b and a not in record.avoided)
    node = next(twice, "")
    return (replace(record, avoided=(*record.avoided, node)[-MAX_AVOIDED:]), node) if node else (record, "")


def _started_anew(
    look: Look, state: GangState, record: GangRecord, losses: Sequence[_Loss], *, counts: bool, alone: bool
) -> GangRecord:
    leader, meta = state.gang.leader, look.job.metadata
    name = f"{meta.uid}-{record.attempt}"
    delay = restart_delay_seconds(record.since_checkpoint, name) if counts else 0.0
    not_before = rfc3339(look.now + timedelta(seconds=delay)) if delay else ""
    if not alone:
        return record.next_attempt(not_before=not_before)
    for loss in losses:
        who, number = replica_name(loss.member), record.attempt + 1
        replaced = {**record.replaced, who: number}
        starting, completed = record.starting | {who}, record.completed - {who}
        record = replace(record, attempt=number, replaced=replaced, starting=starting, completed=completed)
        if loss.member == leader:
            record = record.told_anew()
    return replace(record, not_before=not_before)


def _next(
    look: Look,
    state: GangState,
    record: GangRecord,
    losses: Sequence[_Loss],
    failures: tuple[dict[str, Any], ...],
    avoided: str,
    *,
    alone: bool,
) -> Step:
    """Return the step into the next attempt, with what is to be said about it."""
    following = gang_state(state.gang, record, look.view.pods)
    text, reason = losses[-1].text, losses[-1].verdict.reason
    identity = f"{state.gang.name}-{record.attempt}"
    events = [Event("Restarting", text, warning=True, identity=identity, cause=reason)]
    if avoided:
        told = f"two attempts in a row failed on node {avoided}; later ones are placed elsewhere if there is a place"
        events.append(Event("NodeAvoided", told, warning=True, identity=identity))
    wait = -look.seconds_since(record.not_before) if record.not_before else 0.0
    return Step(
        following,
        create=following.missing if wait <= 0 else (),
        conditions=_said(state, record, reason, text, alone=alone),
        failures=failures,
        events=tuple(events),
        requeue_after_seconds=wait or None,
    )


def _said(state: GangState, record: GangRecord, reason: str, text: str, *, alone: bool) -> tuple[Condition, ...]:
    if state.gang.name is GangName.EVALUATOR:
        return ()
    when = f"begins at {record.not_before}" if record.not_before else "follows"
    waits = not_ready("Restarting", f"attempt {record.attempt} {when}: {text}")
    if alone:
        return (waits,)
    restarting = Condition(ConditionType.RESTARTING, True, reason, text)
    if state.gang.name is GangName.TRAINING:
        return (restarting, Condition(ConditionType.RUNNING, False, reason, text), waits)
    return (restarting, waits)


def _records(look: Look, state: GangState, loss: _Loss, *, counted: bool) -> list[dict[str, Any]]:
    """Return records for `status.failures`: the root cause last, for it is the newest news."""
    records = [record_of(look, p, SECONDARY, said(p)) for p in sorted(loss.others, key=lambda p: p.name)]
    if loss.cause is None:
        attempt = state.record.attempt_of(loss.member)
        name = names.pod_name(look.job.metadata.name, loss.member.role, loss.member.index, attempt)
        found: dict[str, Any] = {"time": rfc3339(look.now), "attempt": attempt, "pod": name}
        found |= {"role": str(loss.member.role), "index": loss.member.index, "reason": loss.verdict.reason}
        found |= {"message": loss.text}
    else:
        message = loss.text if loss.verdict is STALLED else said(loss.cause)
        found = record_of(look, loss.cause, loss.verdict.reason, message)
    if loss.stacks:
        found["stacks"] = loss.stacks
    return [*records, found | {"counted": counted, "rootCause": True}]
