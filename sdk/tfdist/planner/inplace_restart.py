"""In-place restarts: the launchers of a gang restart its training processes without the controller, in rounds.

Under launchers no pod is restarted because a process failed. The launchers count by the same rules as the controller;
the report of their leader carries the counts, which go into the gang's record, and the failures, which go into
`status.failures` once each. The controller replaces a failed pod alone, and its launcher joins the others. When the
launchers give up, at a limit or before a restart that would fail again, their termination messages carry the reason.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import ReplicaFailure
from tfdist.contract import Restarts, replica_name
from tfdist.contract_model import INT32_MAX
from tfdist.contract_reports import GangEnd, GangReport, RoundFailure
from tfdist.failure_classification import known_reason
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState, PodSummary
from tfdist.planner.context import PlanContext
from tfdist.planner.failure_records import record_of_round
from tfdist.planner.messages import failed_subject
from tfdist.planner.plan import Event
from tfdist.reasons import EventReason
from tfdist.render.gang import GangName, Member
from tfdist.termination import termination_message

GRACEFUL_EXIT_SECONDS: Final = 30.0
"""Time for a terminating pod to save with the others before its replacement joins them."""
MAX_EVENTS: Final = 5
"""Maximum number of root causes of one report with an event each; one more event counts the others."""
_NODE_IS_GONE: Final = "DeletionByTaintManager"


@dataclass(frozen=True, slots=True)
class LauncherUpdate:
    """Changes by a launcher report since the last reconcile: the updated record, failures, events."""

    record: GangStatus
    failures: tuple[ReplicaFailure, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchersWait:
    """What the launchers wait for, as text, and whether the rendezvous is a `restart` or the first one."""

    text: str
    restart: bool


def launcher_report(context: PlanContext, state: GangState) -> GangReport | None:
    """Return the last report of the leading launcher of this attempt; None without one."""
    report = context.view.runtime.report
    if report is None or report.content.attempt != state.record.attempt_of(state.gang.leader.name):
        return None
    return report.content.gang


def apply_launcher_report(context: PlanContext, state: GangState) -> LauncherUpdate:
    """Return the gang's record with the launchers' report applied, and the failures and events that are new in it."""
    report = launcher_report(context, state)
    if report is None:
        return LauncherUpdate(state.record)
    fresh = _new_failures(state, report.failures)
    record = with_launcher_restarts(state.record, report.restarts).changed(in_place=True)
    if fresh:
        record = record.changed(last_recorded_failure=fresh[-1].id)
    failures = tuple(record_of_round(context, state, failure) for failure in fresh)
    return LauncherUpdate(record, failures, tuple(_events([failure for failure in fresh if failure.root_cause])))


def rendezvous_wait(context: PlanContext, state: GangState) -> LaunchersWait | None:
    """Return the rendezvous that the launchers wait for; None if they wait for none, or have not reported."""
    report = launcher_report(context, state) if state.gang.name is GangName.TRAINING else None
    if report is None or not report.waiting_for:
        return None
    # A new leader knows of no round before the others have connected.
    return LaunchersWait("; ".join(report.waiting_for), restart=report.round >= 0 or state.attempt > 0)


def _new_failures(state: GangState, failures: Sequence[RoundFailure]) -> list[RoundFailure]:
    """Return the failures after the last recorded one; all, if the report no longer holds that.

    Failures of unknown members are dropped and unknown reasons replaced: a report is untrusted input.
    """
    # Reports repeat their failures: the identity of the last recorded one separates old from new.
    positions = [number for number, failure in enumerate(failures) if failure.id == state.record.last_recorded_failure]
    fresh = failures[positions[-1] + 1 :] if positions else failures
    members = set(state.gang.members) if fresh else set()
    return [
        failure.model_copy(update={"reason": known_reason(failure.reason)})
        for failure in fresh
        if Member(failure.role, failure.index) in members
    ]


def with_launcher_restarts(record: GangStatus, reported: Restarts) -> GangStatus:
    """Return the record with the restarts that the launchers counted since their last report.

    A new checkpoint resets their counters, as it does in the controller. Their `short_attempts` are not taken over: a
    report would lengthen or end the back-off of pods.
    """
    # A late or restarted report must not lower the counters.
    counted, uncounted = (
        max(0, reported.counted - record.launcher_counted),
        max(0, reported.uncounted - record.launcher_uncounted),
    )
    since_checkpoint, uncounted_since_checkpoint = (
        record.since_checkpoint + counted,
        record.uncounted_since_checkpoint + uncounted,
    )
    # A new checkpoint has reset the counters of the launchers; those since then replace ours (ADR 52).
    if reported.checkpoint_step > record.checkpoint_step:
        since_checkpoint, uncounted_since_checkpoint = reported.since_checkpoint, reported.uncounted_since_checkpoint
    return record.changed(
        counted=min(record.counted + counted, INT32_MAX),
        uncounted=min(record.uncounted + uncounted, INT32_MAX),
        since_checkpoint=min(since_checkpoint, INT32_MAX),
        uncounted_since_checkpoint=min(uncounted_since_checkpoint, INT32_MAX),
        checkpoint_step=max(reported.checkpoint_step, record.checkpoint_step),
        launcher_counted=max(reported.counted, record.launcher_counted),
        launcher_uncounted=max(reported.uncounted, record.launcher_uncounted),
    )


def launcher_termination(state: GangState) -> tuple[PodSummary, GangEnd] | None:
    """Return the pod of the root cause, and why the launchers gave up; None if they did not."""
    members = frozenset(state.gang.members)
    terminations = [(p, end) for p in state.failed_or_terminating if (end := _gang_end(members, p)) is not None]
    return next(
        ((p, e) for p, e in terminations if (p.role, p.index) == (e.role, e.index)),
        terminations[0] if terminations else None,
    )


def _gang_end(members: AbstractSet[Member], pod: PodSummary) -> GangEnd | None:
    """Return why the launcher of a pod gave up, by its termination message; None if that names no member."""
    message = termination_message(pod.message)
    end = message.gang_end if message else None
    if end is None or Member(end.role, end.index) not in members:
        return None
    return end.model_copy(update={"reason": known_reason(end.reason)})


def is_recorded(context: PlanContext, pod: PodSummary, end: GangEnd) -> bool:
    """Return whether the failure for which the launchers gave up is recorded already, from a report."""
    key = (str(end.role), end.index, end.round, pod.attempt)
    causes = (f for f in context.view.status.failures or () if f.root_cause)
    return any((f.role, f.index, f.round, f.attempt) == key for f in causes)


def gang_survives(state: GangState) -> bool:
    """Return whether launchers of the gang still run, and wait for the failed members."""
    survives = any(p.state is PodState.RUNNING and not p.deleting for p in state.pods)
    return state.record.in_place and survives and launcher_termination(state) is None


def graceful_exit_remaining_seconds(context: PlanContext, state: GangState) -> float:
    """Return how many seconds more to wait for terminating pods: their launchers save together with all others."""
    # The pods of a lost node cannot save: there is nothing to wait for.
    terminating = (p for p in state.failed_or_terminating if p.deleting and not p.ended and p.reason != _NODE_IS_GONE)
    remaining = (GRACEFUL_EXIT_SECONDS - context.seconds_since(p.deleted_at) for p in terminating if p.deleted_at)
    return max(remaining, default=0.0)


def _events(causes: Sequence[RoundFailure]) -> Iterator[Event]:
    """Yield the events of root causes; of many in one report only the latest have one each."""
    omitted = causes[:-MAX_EVENTS]
    if omitted:
        text = (
            f"{len(omitted)} more failures since the last report; the launchers restarted the gang in place after each"
        )
        identity = f"training-{omitted[-1].id}-and-{len(omitted) - 1}"
        yield Event(EventReason.RESTARTING, text, warning=True, identity=identity, cause=omitted[-1].reason)
    for failure in causes[-MAX_EVENTS:]:
        subject = failed_subject(failure.reason, replica_name(failure.role, failure.index))
        text = f"{subject} in round {failure.round}: {failure.message}; the launchers restart the gang in place"
        yield Event(EventReason.RESTARTING, text, warning=True, identity=f"training-{failure.id}", cause=failure.reason)
