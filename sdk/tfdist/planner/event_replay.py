"""Re-emits events that the previous leader may not have published: it wrote a status and exited before the Event.

The name of an Event derives from its content, so the API server rejects a duplicate. The replay costs one request for
each job that changed in the minute before the takeover.
"""

from dataclasses import replace
from datetime import datetime
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.observed.job_view import JobView
from tfdist.planner.plan import Event
from tfdist.render.gang import GangName
from tfdist.status.conditions import find
from tfdist.timestamps import parse_time

RECENT_SECONDS: Final = 60.0


def recently_transitioned(view: JobView, kind: ConditionType, now: datetime) -> bool:
    """Return whether another process set the condition `kind` to True less than a minute ago."""
    found = find(view.status, kind)
    if not view.taken_over or found is None or found["status"] != "True":
        return False
    return (now - parse_time(found["lastTransitionTime"])).total_seconds() < RECENT_SECONDS


def terminal_events(view: JobView, now: datetime) -> tuple[Event, ...]:
    """Return the event of the end of a job, where the previous leader may not have published it."""
    return tuple(
        _event_of(view, kind)
        for kind in (ConditionType.SUCCEEDED, ConditionType.FAILED)
        if recently_transitioned(view, kind, now)
    )


def restart_events(view: JobView, gang: GangName, attempt: int, now: datetime) -> tuple[Event, ...]:
    """Return the event of the restart into `attempt`, where the previous leader may not have published it."""
    is_due = attempt and gang is not GangName.EVALUATOR and recently_transitioned(view, ConditionType.RESTARTING, now)
    return (replace(_event_of(view, ConditionType.RESTARTING), identity=f"{gang}-{attempt}"),) if is_due else ()


def _event_of(view: JobView, kind: ConditionType) -> Event:
    found = find(view.status, kind) or {"message": "", "reason": ""}
    return Event(str(kind), found["message"], warning=found["reason"] != str(ConditionType.SUCCEEDED))
