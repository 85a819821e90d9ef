"""Composes the status of a job, and decides whether it must be written at once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypedDict, Unpack

from tfdist.api.gang_status import GangStatus, SchedulingStatus
from tfdist.api.status import (
    ConditionType,
    EvaluationStatus,
    ExportStatus,
    FunctionResult,
    JobCondition,
    JobPhase,
    Progress,
    ReplicaCounts,
    ReplicaFailure,
    RestartCounts,
    Summary,
    TensorBoardStatus,
    TFDistJobStatus,
)
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView
from tfdist.outcome import read_status
from tfdist.render.gang import GangName
from tfdist.render.names import worker_selector
from tfdist.status.conditions import Condition, is_true, merge
from tfdist.status.phase import evaluation_failed, is_terminal, phase_of, training_succeeded
from tfdist.status.summary import summary
from tfdist.status.text import is_printable_json, printable_status

MAX_FAILURES: Final = 10

_THROTTLED: Final = frozenset({"replicas", "progress", "evaluation", "summary"})
"""Fields that change often: a change of these alone is written at most every few seconds."""
_THROTTLED_OF_GANG: Final = frozenset({"completed", "pending_replacements", "progress"})

_STOPPING: Final = frozenset({JobPhase.SUSPENDING, JobPhase.SUSPENDED, JobPhase.QUEUED})


class StatusFields(TypedDict, total=False):
    """Fields of the status that a plan may set, with the names and types of `TFDistJobStatus`; None removes one."""

    active_since: str | None
    completion_time: str | None
    evaluation: EvaluationStatus | None
    export: ExportStatus | None
    function_result: FunctionResult | None
    gangs: dict[str, GangStatus] | None
    replicas: dict[str, ReplicaCounts] | None
    restarted_at: str | None
    scheduling: SchedulingStatus | None
    specifications: dict[str, str] | None
    start_time: str | None
    tensor_board: TensorBoardStatus | None


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A write of the status."""

    status: TFDistJobStatus | None
    """The status to write now; None for no write."""
    wait_seconds: float | None = None
    """Seconds until a throttled status may be written; None without one."""
    counters_only: bool = False
    """Whether only counters have changed: no action follows from this write."""


def compose_status(
    view: JobView,
    states: Sequence[GangState],
    now: str,
    *,
    conditions: Sequence[Condition],
    failures: Sequence[ReplicaFailure] = (),
    progress: Progress | None = None,
    **fields: Unpack[StatusFields],
) -> TFDistJobStatus:
    """Return the whole status of a job. It is deterministic, and keeps stored fields that do not change.

    Args:
        view: the job.
        states: its gangs.
        now: the time, RFC 3339.
        conditions: conditions to set.
        failures: failures to add.
        progress: the progress; None keeps the stored one.
        fields: other fields to set.
    """
    stored = view.status
    changes: dict[str, Any] = {**fields, **_attempt_counters(fields.get("gangs") or stored.gangs or {})}
    changes["conditions"] = merge(stored.conditions or (), conditions, JobCondition, view.generation, now)
    if failures:
        changes["failures"] = _newest([*(stored.failures or ()), *failures])
    changes["observed_generation"] = view.generation
    if view.job is not None:
        changes["selector"] = worker_selector(view.job.metadata.uid)
    result = _with(stored, changes)
    changes = {"phase": phase_of(result)}
    if progress is not None:
        moves = changes["phase"] is JobPhase.RUNNING and not is_true(result, ConditionType.STALLED)
        changes["progress"] = progress if moves else _without_estimates(progress)
    result = _with(result, changes)
    result = _with(result, {"summary": _summary(view, states, result)})
    return stored if result is stored or result == stored else _printable(result, stored)


def _with(status: TFDistJobStatus, changes: Mapping[str, Any]) -> TFDistJobStatus:
    """Return the status with other values of some fields; the same object if all of them are equal."""
    values = vars(status)
    changed = {name: value for name, value in changes.items() if values[name] != value}
    return status.model_copy(update=changed) if changed else status


def _without_estimates(progress: Progress) -> Progress:
    """Return `progress` without the fields that apply only while training makes progress."""
    return progress.model_copy(update={"eta_seconds": None, "slowest_replica": None})


def _printable(status: TFDistJobStatus, stored: TFDistJobStatus) -> TFDistJobStatus:
    """Return the status with every text printable: every status passes this function before it is written.

    Texts of fields that are equal to the stored ones have passed it before.
    """
    changed = {name for name, value in vars(status).items() if value != getattr(stored, name)}
    if is_printable_json(status.model_dump_json(exclude_none=True, include=changed)):
        return status
    return read_status(printable_status(status.to_json()))


def throttled_write(view: JobView, status: TFDistJobStatus) -> StatusWrite:
    """Return whether a new status is written now, later or not at all."""
    if status is view.status or status == view.status:
        return StatusWrite(None)
    counters_only = _unthrottled_fields(status) == _unthrottled_fields(view.status)
    if counters_only and view.throttled_seconds:
        return StatusWrite(None, view.throttled_seconds)
    return StatusWrite(status, counters_only=counters_only)


def _summary(view: JobView, states: Iterable[GangState], status: TFDistJobStatus) -> Summary:
    evaluation = view.job.spec.evaluation if view.job else None
    return summary(status, evaluation.metric if evaluation else "accuracy", _active_roles(states, status))


def _active_roles(states: Iterable[GangState], status: TFDistJobStatus) -> set[str]:
    """Return the roles of active gangs: neither completed, failed, nor yet to start."""
    if is_terminal(status):
        return set()
    has_trained = training_succeeded(status)
    is_done = {
        GangName.TRAINING: has_trained,
        GangName.EVALUATION: False,
        GangName.EVALUATOR: evaluation_failed(status),
    }
    active = (s for s in states if not is_done[s.gang.name] and not s.leader_succeeded)
    return {str(m.role) for s in active for m in s.gang.members}


def _newest(failures: list[ReplicaFailure]) -> list[ReplicaFailure]:
    """Return the newest failures; secondary ones are dropped first, so that root causes are kept longest."""
    excess = len(failures) - MAX_FAILURES
    secondary = (i for i, f in enumerate(failures) if not f.root_cause)
    dropped_indices = set(islice(secondary, max(0, excess)))
    return [f for i, f in enumerate(failures) if i not in dropped_indices][-MAX_FAILURES:]


def _attempt_counters(records: Mapping[str, GangStatus]) -> dict[str, Any]:
    """Return `attempt` and `restarts` for users: of training, or of the evaluation in a job without training."""
    record = records.get("training") or records.get("evaluation")
    if record is None:
        return {}
    counts = {name: getattr(record, name) for name in RestartCounts.model_fields}
    return {"attempt": record.attempt, "restarts": RestartCounts(**counts)}


def _unthrottled_fields(status: TFDistJobStatus) -> dict[str, Any]:
    """Return the fields of a status whose changes are written at once.

    The success of one more replica is throttled: either the end of the job follows, or no action does. That
    all have run is not: the next controller would take a replica that is lost for one that was never created. The last
    checkpoint of a job that is being suspended is written at once, and so are its successes: the pod that reports them
    is deleted soon after, and another process has no other source.
    """
    is_stopping = status.phase in _STOPPING
    throttled = _THROTTLED - {"progress"} if is_stopping else _THROTTLED
    of_gang = _THROTTLED_OF_GANG - {"completed"} if is_stopping else _THROTTLED_OF_GANG
    fields = {name: value for name, value in vars(status).items() if name not in throttled}
    gangs = (status.gangs or {}).items()
    fields["gangs"] = {name: {k: v for k, v in vars(gang).items() if k not in of_gang} for name, gang in gangs}
    return fields
