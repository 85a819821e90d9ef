"""Messages of a running gang: how many of its replicas run, and why its launchers restart it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tfdist.api.status import ConditionType
from tfdist.contract import Role, replica_name
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState
from tfdist.planner.context import PlanContext
from tfdist.status.conditions import find
from tfdist.timestamps import parse_time

MAX_NAMED: Final = 3
"""Maximum number of replicas that a message names."""
_IN_PLACE: Final = "the launchers restart the gang in place, and wait: "


def named(replicas: Sequence[str]) -> str:
    """Return the names of replicas for a message, the first few of many."""
    return ", ".join(replicas[:MAX_NAMED]) + (", ..." if len(replicas) > MAX_NAMED else "")


def running_text(state: GangState) -> str:
    """Return how many replicas of a started gang run, and which have ended or are not ready.

    The numbers are those of `status.summary.ready` and of the pods: a replica that has ended does not run, and one
    whose readiness probe fails is not ready.
    """
    running = {p.replica: p.ready for p in state.pods if p.state is PodState.RUNNING}
    ended = [m.name for m in state.gang.members if m.name not in running]
    unready = [name for name, ready in running.items() if not ready]
    total = len(state.gang.members)
    text = f"{len(running)} of {total} replicas run" if ended else state.gang.all_run_text()
    text += f"; {named(ended)} {_plural('has', 'have', ended)} ended" if ended else ""
    return text + (f"; {named(unready)} {_plural('is', 'are', unready)} not ready" if unready else "")


def _plural(one: str, many: str, names: Sequence[str]) -> str:
    return one if len(names) == 1 else many


def in_place_restart_text(
    context: PlanContext, state: GangState, recorded: Sequence[Mapping[str, Any]], waits: str
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


def _cause(context: PlanContext, state: GangState, recorded: Sequence[Mapping[str, Any]]) -> str:
    """Return the cause of a restart: of the newest failure, else as the condition or the status has it; "" for none."""
    fresh = [failure for failure in recorded if failure["rootCause"]]
    if fresh:
        return _describe(fresh[-1])
    known = find(context.view.status, ConditionType.RESTARTING)
    if known is not None and known["status"] == "True":
        return str(known["message"]).partition(_IN_PLACE)[0].removesuffix("; ")
    last, since = context.last_root_cause(state.gang), context.view.status.get("activeSince")
    if last is None or (since and parse_time(last["time"]) < parse_time(since)):  # a resume has no cause
        return ""
    return _describe(last)


def _describe(failure: Mapping[str, Any]) -> str:
    """Return a record of `status.failures` in one line."""
    who, message = replica_name(Role(failure["role"]), failure["index"]), str(failure["message"])
    if re.search(rf"\b{who}\b", message):
        return message
    how = f"failed in round {failure['round']}" if "round" in failure else "failed"
    return f"{who} {how}: {message}" if message else f"{who} {how}"
