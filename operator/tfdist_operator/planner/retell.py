"""Tells again what a process that was killed may not have told: it stored a status and died before its event.

An event's name is made of what it says, so one that was told is refused as a double and costs a request, once for each
job that changed in the minute before another process took over.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.render.gang import GangName
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner.plan import Event
from tfdist_operator.status.clock import parse_time
from tfdist_operator.status.conditions import find

RECENT_SECONDS: Final = 60.0


def is_recent(view: JobView, kind: ConditionType, now: datetime) -> bool:
    """Return whether another process said, a moment ago, that `kind` holds."""
    found = find(view.status, kind)
    if not view.taken_over or found is None or found["status"] != "True":
        return False
    return (now - parse_time(found["lastTransitionTime"])).total_seconds() < RECENT_SECONDS


def ending(view: JobView, now: datetime) -> tuple[Event, ...]:
    """Return the event of the end of a job, of which another process may not have told."""
    return tuple(
        _told(view, kind) for kind in (ConditionType.SUCCEEDED, ConditionType.FAILED) if is_recent(view, kind, now)
    )


def restarting(view: JobView, gang: GangName, attempt: int, now: datetime) -> tuple[Event, ...]:
    """Return the event of the restart of a gang into `attempt`, of which another process may not have told."""
    told = attempt and gang is not GangName.EVALUATOR and is_recent(view, ConditionType.RESTARTING, now)
    return (replace(_told(view, ConditionType.RESTARTING), identity=f"{gang}-{attempt}"),) if told else ()


def _told(view: JobView, kind: ConditionType) -> Event:
    found = find(view.status, kind) or {"message": "", "reason": ""}
    return Event(str(kind), found["message"], warning=found["reason"] != str(ConditionType.SUCCEEDED))
