"""Reports a change of a finished job's specification: it has no effect, since a finished job never runs again."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.status import ConditionType, JobCondition, Summary, TFDistJobStatus
from tfdist.observed.job_view import JobView
from tfdist.outcome import find_condition, read_status
from tfdist.planner.plan import Event
from tfdist.reasons import EventReason
from tfdist.status.conditions import Condition, is_true, merge
from tfdist.status.phase import is_terminal

DELETE_FIRST: Final = "delete the job first, and create it again (kubectl replace --force -f FILE)"
_CHANGED: Final = "; the specification of generation "


def report_unused_change(view: JobView, now: str) -> tuple[TFDistJobStatus | None, tuple[Event, ...]]:
    """Return the status that reports a change after the end, with its event; (None, ()) if none is new.

    The message of the terminal condition gets the remedy: users who applied a corrected manifest read it.
    """
    observed = view.status.observed_generation
    if observed is None or view.generation <= observed:
        return None, ()
    kind = ConditionType.FAILED if is_true(view.status, ConditionType.FAILED) else ConditionType.SUCCEEDED
    stored = find_condition(view.status, kind)
    if stored is None:
        return None, ()
    text = f"the specification of generation {view.generation} does not run, because the job has finished: "
    text += DELETE_FIRST
    end_message = stored.message.partition(_CHANGED)[0]
    condition = Condition(kind, True, stored.reason, f"{end_message}; {text}")
    conditions = merge(view.status.conditions or (), (condition,), JobCondition, view.generation, now)
    summary = (view.status.summary or Summary()).model_copy(update={"message": f"{end_message}; {text}"})
    changes = {"conditions": conditions, "observed_generation": view.generation, "summary": summary}
    event = Event(EventReason.CHANGE_NOT_APPLIED, text, warning=True, identity=str(view.generation))
    return view.status.model_copy(update=changes), (event,)


def unused_change_warning(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the admission warning about a change of a finished job; "" for any other change."""
    status = old.get("status")
    finished = isinstance(status, Mapping) and is_terminal(read_status(status))
    if not finished or old.get("spec") == new.get("spec"):
        return ""
    return f"spec: does not run, because the job has finished: {DELETE_FIRST}"
