"""Messages of a running gang: how many replicas run, what it waits for, and why its launchers restart it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.api.status import ConditionType, ReplicaFailure
from tfdist.contract import Phase, Role, replica_name
from tfdist.failure_classification import STALLED
from tfdist.observed.cadence import cadence_of
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState
from tfdist.outcome import find_condition
from tfdist.planner.context import PlanContext
from tfdist.render.gang import GangName
from tfdist.render.names import RESTART_ANNOTATION
from tfdist.restarts.stall import named_seconds, whereabouts
from tfdist.timestamps import parse_time

MAX_NAMED: Final = 3
"""Maximum number of replicas that a message names."""
_UNREPORTED_SECONDS: Final = 60.0
"""After this time without a report the message of a script names the command that shows its output."""
_IN_PLACE: Final = "the launchers restart the gang in place, and wait: "


def join_replicas(replicas: Sequence[str]) -> str:
    """Return the names of replicas for a message, the first few of many."""
    return ", ".join(replicas[:MAX_NAMED]) + (", ..." if len(replicas) > MAX_NAMED else "")


def running_text(state: GangState) -> str:
    """Return how many replicas of a started gang run, and which have ended or are not ready.

    The numbers agree with `status.summary.ready` and with the pods: a replica that has ended does not run, and one
    whose readiness probe fails is not ready.
    """
    running = {p.replica: p.ready for p in state.pods if p.state is PodState.RUNNING}
    ended = [m.name for m in state.gang.members if m.name not in running]
    unready = [name for name, ready in running.items() if not ready]
    total = len(state.gang.members)
    text = f"{len(running)} of {total} replicas run" if ended else state.gang.all_run_text()
    text += f"; {join_replicas(ended)} {_plural('has', 'have', ended)} ended" if ended else ""
    return text + (f"; {join_replicas(unready)} {_plural('is', 'are', unready)} not ready" if unready else "")


def _plural(singular: str, plural: str, names: Sequence[str]) -> str:
    return singular if len(names) == 1 else plural


@dataclass(frozen=True, slots=True)
class UnreportedProgress:
    """A part of a message, "" if there is none now, and the seconds until there may be one."""

    text: str = ""
    requeue_after_seconds: float | None = None


def pending_members(context: PlanContext, state: GangState) -> str:
    """Return the part about the members that the leader's trainer waits for, without a launcher; "" for none."""
    report, leader = context.view.runtime.report, state.leader
    if state.gang.name is not GangName.TRAINING or report is None or leader is None:
        return ""
    members = report.content.waiting_for if report.content.attempt == leader.attempt else ()
    return f"; {leader.replica} waits for {', '.join(members)} to connect" if members else ""


def unreported_progress(context: PlanContext, state: GangState) -> UnreportedProgress:
    """Return the part about a custom program that reports nothing: it may start, connect or train, as its log shows.

    The stored progress counts too: a new controller has received no report yet.
    """
    view, leader = context.view, state.leader
    if state.gang.name is not GangName.TRAINING or leader is None:
        return UnreportedProgress()
    if view.runtime.report is not None or view.status.progress or context.runs_trainer(leader.role):
        return UnreportedProgress()
    running = find_condition(view.status, ConditionType.RUNNING)
    start = running.last_transition_time if running is not None and running.status == "True" else ""
    remaining = _UNREPORTED_SECONDS - context.seconds_since(start) if start else _UNREPORTED_SECONDS
    if remaining > 0:
        return UnreportedProgress(requeue_after_seconds=remaining)
    log = view.log_of(context.job.metadata.namespace, leader)
    return UnreportedProgress(f"; the program reports no progress; the log of {leader.replica}: {log}")


def missing_progress(context: PlanContext, state: GangState) -> UnreportedProgress:
    """Return the part about a gang that has reported no progress for minutes; it may hang, or do something slow.

    It names the time instead of the duration, so that the status is written once. While members wait for each other,
    the message names these.
    """
    view, leader, cadence = context.view, state.leader, cadence_of(context.view, state)
    content = view.runtime.report.content if view.runtime.report else None
    if state.gang.name is not GangName.TRAINING or leader is None or cadence is None or content is None:
        return UnreportedProgress()
    is_waiting = content.waiting_for or (content.gang and content.gang.waiting_for)
    if is_waiting or content.phase is Phase.FINISHED:
        return UnreportedProgress()
    remaining = named_seconds(cadence.longest_pause_seconds) - context.seconds_since(cadence.last_progress_at)
    if remaining > 0:
        return UnreportedProgress(requeue_after_seconds=remaining)
    stacks = view.stacks_of(context.job.metadata.namespace, context.job.metadata.name)
    text = f"; no progress since {cadence.last_progress_at}: {leader.replica} {whereabouts(content)}"
    return UnreportedProgress(f"{text}; where the replicas are: {stacks}" if stacks else text)


def older_specification(context: PlanContext, state: GangState) -> str:
    """Return the part of a message about pods of an older revision; "" if they use the newest."""
    revision = context.revision
    if revision is None or context.view.problems or not context.is_outdated(state):
        return ""
    used = f"generation {state.record.generation}" if state.record.generation else "an earlier generation"
    applies = f"the next attempt applies generation {revision.generation}"
    return (
        f"; running pods use the specification of {used}; {applies}: to apply it now, set runPolicy.updateStrategy to "
        f"Restart or change the annotation {RESTART_ANNOTATION}"
    )


def in_place_restart_text(
    context: PlanContext, state: GangState, recorded: Sequence[ReplicaFailure], waits: str
) -> str:
    """Return the message of a gang whose launchers wait for each other: the cause of the restart, and the wait.

    Args:
        context: the context of the reconcile.
        state: the gang.
        recorded: the failures of the launchers' report that the status does not have yet.
        waits: the members that the launchers wait for.
    """
    cause = _cause(context, state, recorded)
    return f"{cause}; {_IN_PLACE}{waits}" if cause else f"{_IN_PLACE}{waits}"


def _cause(context: PlanContext, state: GangState, recorded: Sequence[ReplicaFailure]) -> str:
    """Return the cause of a restart: of the newest failure, else as the condition or the status has it; "" for none."""
    fresh = [failure for failure in recorded if failure.root_cause]
    if fresh:
        return _describe(fresh[-1])
    restarting = find_condition(context.view.status, ConditionType.RESTARTING)
    if restarting is not None and restarting.status == "True":
        return restarting.message.partition(_IN_PLACE)[0].removesuffix("; ")
    last, since = context.last_root_cause(state.gang), context.view.status.active_since
    if last is None or (since and parse_time(last.time) < parse_time(since)):  # a resume has no cause
        return ""
    return _describe(last)


def _describe(failure: ReplicaFailure) -> str:
    """Return a record of `status.failures` in one line."""
    replica, message = replica_name(Role(failure.role), failure.index), failure.message
    if re.search(rf"\b{replica}\b", message):
        return message
    subject = failed_subject(failure.reason, replica)
    subject += "" if failure.round is None else f" in round {failure.round}"
    return f"{subject}: {message}" if message else subject


def failed_subject(reason: str, replica: str) -> str:
    """Return what failed: the message of a stall names the replica that is behind, if one is known to be."""
    return "the gang stalled" if reason == STALLED.reason else f"{replica} failed"
