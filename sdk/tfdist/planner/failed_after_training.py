"""The condition and the event of a job that succeeded although a worker failed after the training of its leader.

`successPolicy: Chief` does not ask for the other workers: without this nothing names their error.
"""

from typing import Final

from tfdist.api.status import ConditionType, JobCondition, TFDistJobStatus
from tfdist.failure_classification import (
    APPLICATION_ERROR,
    OUT_OF_MEMORY,
    USER_ERROR,
    Action,
    classify,
    may_have_lost_peer,
)
from tfdist.messages import count
from tfdist.observed.gang_record import stored_record
from tfdist.observed.gang_state import COUNTED_ROLES, gang_state
from tfdist.observed.job_view import JobView
from tfdist.observed.pod import PodState, PodSummary
from tfdist.observed.termination import describe_failure
from tfdist.outcome import find_condition
from tfdist.planner.plan import Event
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.gang import GangName, gangs
from tfdist.status.conditions import Condition, is_true, merge

_OWN_ERRORS: Final = frozenset({APPLICATION_ERROR, USER_ERROR, OUT_OF_MEMORY})
"""Reasons of a failure that is not the end of the leader: TensorFlow may crash when its peers have left."""
_BEGINS: Final = "training succeeded; after it "


def report_failure_after_training(view: JobView, now: str) -> tuple[TFDistJobStatus | None, tuple[Event, ...]]:
    """Return the status of a job that succeeded with the failure of a worker, and the event; (None, ()) if none is new.

    The message is appended to a condition `Degraded` that has another reason.
    """
    stored = find_condition(view.status, ConditionType.DEGRADED)
    degraded = stored if stored is not None and stored.status == "True" else None
    if not is_true(view.status, ConditionType.SUCCEEDED) or (degraded and _BEGINS in degraded.message):
        return None, ()
    failed = _failed_workers(view)
    if not failed:
        return None, ()
    others = f", and {count(len(failed) - 1, 'other worker')} failed" if len(failed) > 1 else ""
    text = f"{_BEGINS}{describe_failure(failed[0])}{others}"
    reason = degraded.reason if degraded else ConditionReason.FAILED_AFTER_TRAINING
    message = f"{degraded.message}; {text}" if degraded else text
    condition = Condition(ConditionType.DEGRADED, True, reason, message)
    conditions = merge(view.status.conditions or (), (condition,), JobCondition, view.generation, now)
    event = Event(EventReason.FAILED_AFTER_TRAINING, text, warning=True, identity=str(failed[0].attempt))
    return view.status.model_copy(update={"conditions": conditions}), (event,)


def _failed_workers(view: JobView) -> list[PodSummary]:
    """Return the workers that failed by an error of their own, the first one first."""
    record = stored_record(view.status, GangName.TRAINING)
    if view.job is None or record is None or all(p.state is not PodState.FAILED for p in view.pods):
        return []
    policy = view.job.spec.failure_policy
    gang = next(gang for gang in gangs(view.job) if gang.name is GangName.TRAINING)
    state = gang_state(gang, record, view.pods)
    workers = (p for p in state.failed_or_terminating if p.role in COUNTED_ROLES and p.ended and not p.deleting)
    kinds = ((p, classify(p), classify(p, policy).action) for p in workers)
    own = [p for p, kind, action in kinds if kind.reason in _OWN_ERRORS and action is not Action.IGNORE]
    return sorted((p for p in own if not may_have_lost_peer(p)), key=lambda p: (p.finished_at, p.index))
