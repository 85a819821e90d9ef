"""Parts of the message of a gang that runs: what is known before its first step, and about its specification."""

from dataclasses import dataclass
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.planner.planned_restart import ANNOTATION
from tfdist.render.gang import GangName
from tfdist.status.conditions import find

_UNREPORTED_SECONDS: Final = 60.0
"""After this time without a report the message of a script names the command that shows its output."""


@dataclass(frozen=True, slots=True)
class UnreportedProgress:
    """A part of a message, "" if there is none now, and the seconds until there may be one."""

    text: str = ""
    requeue_after_seconds: float | None = None


def pending_members(context: PlanContext, state: GangState) -> str:
    """Return the part about the members that the leader's trainer waits for, without a launcher; "" for none."""
    report, leader = context.view.report, state.leader
    if state.gang.name is not GangName.TRAINING or report is None or leader is None:
        return ""
    members = report.content.waiting_for if report.content.attempt == leader.attempt else ()
    return f"; {leader.replica} waits for {', '.join(members)} to connect" if members else ""


def unreported_progress(context: PlanContext, state: GangState) -> UnreportedProgress:
    """Return the part about a script that reports nothing: it may start, connect or train, and its log shows which.

    The stored progress counts too: a new controller has received no report yet.
    """
    view, leader = context.view, state.leader
    if state.gang.name is not GangName.TRAINING or context.spec.training is not None or leader is None:
        return UnreportedProgress()
    if view.report is not None or view.status.get("progress"):
        return UnreportedProgress()
    running = find(view.status, ConditionType.RUNNING)
    since = str(running["lastTransitionTime"]) if running is not None and running["status"] == "True" else ""
    left = _UNREPORTED_SECONDS - context.seconds_since(since) if since else _UNREPORTED_SECONDS
    if left > 0:
        return UnreportedProgress(requeue_after_seconds=left)
    log = view.log_of(context.job.metadata.namespace, leader)
    return UnreportedProgress(f"; the program reports no progress; the log of {leader.replica}: {log}")


def older_specification(context: PlanContext, state: GangState) -> str:
    """Return the part of a message about pods of an older revision; "" where they use the newest."""
    revision = context.revision
    if revision is None or context.view.problems or not context.is_outdated(state):
        return ""
    used = f"generation {state.record.generation}" if state.record.generation else "an earlier generation"
    applies = f"the next attempt applies generation {revision.generation}"
    return (
        f"; running pods use the specification of {used}; {applies}: to apply it now, set runPolicy.updateStrategy to "
        f"Restart or change the annotation {ANNOTATION}"
    )
