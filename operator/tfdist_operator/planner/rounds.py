"""Rounds: restarts in place, which the launchers of a gang make by themselves, as their leader's report tells of them.

While launchers are at work no pod is restarted because a program failed: they count by the same rules, and what they
have counted goes into the gang's record and into `status.failures`, each failure once. What only the controller can do
is left to it: a pod that is lost is replaced alone, and its launcher joins the others; and when they give up, because a
limit is reached or a restart would end the same, their last words say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tfdist.contract import Restarts
from tfdist.contract_reports import GangEnd, GangReport, RoundFailure
from tfdist.render.gang import GangName, Member
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import PodState, PodSummary
from tfdist_operator.observed.record import GangRecord, replica_name
from tfdist_operator.planner.failures import record_of_round
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Event
from tfdist_operator.policy.words import last_words

FAREWELL_SECONDS: Final = 30.0
"""How long a pod that is being deleted may take to save with the others before its replacement joins them."""
_NODE_IS_GONE: Final = "DeletionByTaintManager"


@dataclass(frozen=True, slots=True)
class News:
    """What the launchers have told since the last look: the gang's record with it, failures, events."""

    record: GangRecord
    failures: tuple[dict[str, Any], ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Waits:
    """What the launchers of a training wait for, in words, and whether to `restart` it rather than to begin."""

    text: str
    restart: bool


def gang_report(look: Look, state: GangState) -> GangReport | None:
    """Return what the leading launcher of this attempt has told last; None where there is none."""
    report = look.view.report
    if report is None or report.content.attempt != state.record.attempt_of(state.gang.leader):
        return None
    return report.content.gang


def news(look: Look, state: GangState) -> News:
    """Return what is new in the report of a gang's launchers."""
    told = gang_report(look, state)
    if told is None:
        return News(state.record)
    fresh = _untold(told.failures, state.record.told_failure)
    record = replace(counted(state.record, told.restarts), launched=True)
    if fresh:
        record = replace(record, told_failure=fresh[-1].id)
    failures = tuple(record_of_round(look, state, failure) for failure in fresh)
    return News(record, failures, tuple(_event(failure) for failure in fresh if failure.root_cause))


def waits(look: Look, state: GangState) -> Waits | None:
    """Return what the launchers of a training wait for; None where they wait for nothing, or tell nothing."""
    told = gang_report(look, state) if state.gang.name is GangName.TRAINING else None
    if told is None or not told.waiting_for:
        return None
    # A new leader knows of no round before the others have called.
    return Waits("; ".join(told.waiting_for), restart=told.round >= 0 or state.attempt > 0)


def _untold(failures: Sequence[RoundFailure], last: str) -> Sequence[RoundFailure]:
    """Return the failures after the one told last; all, where that is none of them."""
    known = [number for number, failure in enumerate(failures) if failure.id == last]
    return failures[known[-1] + 1 :] if known else failures


def counted(record: GangRecord, told: Restarts) -> GangRecord:
    """Return the record with the restarts that the launchers have counted beyond those told of before.

    A new checkpoint begins their count anew, as it does here.
    """
    more, free = max(0, told.counted - record.told_counted), max(0, told.uncounted - record.told_uncounted)
    since, free_since = record.since_checkpoint + more, record.free_since_checkpoint + free
    if told.checkpoint_step > record.checkpoint_step:
        since, free_since = told.since_checkpoint, told.free_since_checkpoint
    return replace(
        record,
        counted=record.counted + more,
        uncounted=record.uncounted + free,
        since_checkpoint=since,
        free_since_checkpoint=free_since,
        checkpoint_step=max(told.checkpoint_step, record.checkpoint_step),
        told_counted=max(told.counted, record.told_counted),
        told_uncounted=max(told.uncounted, record.told_uncounted),
    )


def used(record: GangRecord) -> Restarts:
    """Return the restarts that a leading launcher which is made now is told of."""
    return Restarts(
        counted=record.told_counted,
        uncounted=record.told_uncounted,
        since_checkpoint=record.since_checkpoint,
        free_since_checkpoint=record.free_since_checkpoint,
        checkpoint_step=record.checkpoint_step,
    )


def end_of_launchers(state: GangState) -> tuple[PodSummary, GangEnd] | None:
    """Return the pod of the root cause and why the launchers gave up; None where they did not."""
    said = [(p, words.gang_end) for p in state.lost if (words := last_words(p)) is not None and words.gang_end]
    return next(((p, e) for p, e in said if (p.role, p.index) == (e.role, e.index)), said[0] if said else None)


def is_told(look: Look, pod: PodSummary, end: GangEnd) -> bool:
    """Return whether the failure that the launchers gave up for has been recorded from a report."""
    where = (str(end.role), end.index, end.round, pod.attempt)
    causes = (f for f in look.view.status.get("failures", ()) if f["rootCause"])
    return any((f["role"], f["index"], f.get("round"), f["attempt"]) == where for f in causes)


def lives_on(state: GangState) -> bool:
    """Return whether launchers of the gang go on and wait for those that were lost."""
    survives = any(p.state is PodState.RUNNING and not p.deleting for p in state.pods)
    return state.record.launched and survives and end_of_launchers(state) is None


def farewell_seconds(look: Look, state: GangState) -> float:
    """Return how long to wait for pods that are being deleted: their launchers save at a step with all the others."""
    leaving = (p for p in state.lost if p.deleting and not p.ended and p.reason != _NODE_IS_GONE)
    left = (FAREWELL_SECONDS - look.seconds_since(p.deleted_at) for p in leaving if p.deleted_at)
    return max(left, default=0.0)


def _event(failure: RoundFailure) -> Event:
    who = replica_name(Member(failure.role, failure.index))
    text = f"{who} failed in round {failure.round}: {failure.message}; the launchers restart the gang in place"
    return Event("Restarting", text, warning=True, identity=f"training-{failure.id}", cause=failure.reason)
