"""Composes the status of a job, and decides whether it must be written at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.api.status import ConditionType, JobPhase
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView
from tfdist.render.gang import GangName
from tfdist.render.names import worker_selector
from tfdist.status.conditions import Condition, is_true, merge
from tfdist.status.phase import evaluation_failed, is_terminal, phase_of, training_succeeded
from tfdist.status.summary import summary
from tfdist.status.text import printable_status

MAX_FAILURES: Final = 10

_THROTTLED: Final = frozenset({"replicas", "progress", "evaluation", "summary"})
"""Fields that change often: a change of these alone is written at most every few seconds."""

_WHILE_TRAINING: Final = frozenset({"etaSeconds", "slowestReplica"})
"""Fields of the progress that apply only while training makes progress."""

_STOPPING: Final = frozenset({JobPhase.SUSPENDING, JobPhase.SUSPENDED, JobPhase.QUEUED})


@dataclass(frozen=True, slots=True)
class StatusUpdate:
    """Changes of the status by one reconcile, without the fields that derive from them."""

    conditions: tuple[Condition, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class StatusWrite:
    """A write of the status."""

    status: dict[str, Any] | None
    """The status to write now; None for no write."""
    wait_seconds: float | None = None
    """When a changed status is written that is not written now."""
    counters_only: bool = False
    """Whether only counters have changed: no action follows from this write."""


def compose_status(
    view: JobView, states: Sequence[GangState], changes: StatusUpdate, progress: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the whole status of a job. It is deterministic, and keeps stored fields that do not change."""
    stored = view.status
    result = {k: v for k, v in {**stored, **changes.fields}.items() if v is not None}
    result |= _attempt_counters(result.get("gangs", {}))
    result["conditions"] = merge(stored.get("conditions", ()), changes.conditions, view.generation, now)
    if changes.failures:
        result["failures"] = _newest([*stored.get("failures", ()), *changes.failures])
    result["observedGeneration"] = view.generation
    result["phase"] = str(phase_of(result))
    if progress:
        moves = result["phase"] == JobPhase.RUNNING and not is_true(result, ConditionType.STALLED)
        result["progress"] = {k: v for k, v in progress.items() if moves or k not in _WHILE_TRAINING}
    if view.job is not None:
        result["selector"] = worker_selector(view.job.metadata.uid)
    result["summary"] = _summary(view, states, result)
    return dict(printable_status(result))  # the only place that every text of a status passes


def throttled_write(view: JobView, status: dict[str, Any]) -> StatusWrite:
    """Return whether a new status is written now, later or not at all."""
    if status == view.status:
        return StatusWrite(None)
    counters_only = _written_at_once(status) == _written_at_once(view.status)
    if counters_only and view.throttled_seconds:
        return StatusWrite(None, view.throttled_seconds)
    return StatusWrite(status, counters_only=counters_only)


def _summary(view: JobView, states: Sequence[GangState], status: Mapping[str, Any]) -> dict[str, str]:
    evaluation = view.job.spec.evaluation if view.job else None
    return summary(status, evaluation.metric if evaluation else "accuracy", _active_roles(states, status))


def _active_roles(states: Sequence[GangState], status: Mapping[str, Any]) -> set[str]:
    """Return the roles of active gangs: neither completed, failed, nor yet to start."""
    if is_terminal(status):
        return set()
    trained = training_succeeded(status)
    done = {GangName.TRAINING: trained, GangName.EVALUATION: False, GangName.EVALUATOR: evaluation_failed(status)}
    working = (s for s in states if not done[s.gang.name] and not s.leader_succeeded)
    return {str(m.role) for s in working for m in s.gang.members}


def _newest(failures: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the newest failures; secondary ones are dropped first, so that root causes are kept longest."""
    excess = len(failures) - MAX_FAILURES
    dropped = [i for i, f in enumerate(failures) if not f["rootCause"]][: max(0, excess)]
    return [f for i, f in enumerate(failures) if i not in dropped][-MAX_FAILURES:]


def _attempt_counters(records: Mapping[str, Any]) -> dict[str, Any]:
    """Return `attempt` and `restarts` for users: of training, or of the evaluation in a job without training."""
    record = records.get("training") or records.get("evaluation")
    if record is None:
        return {}
    counts = {name: record.get(name, 0) for name in ("counted", "uncounted", "sinceCheckpoint")}
    return {"attempt": record["attempt"], "restarts": counts}


def _written_at_once(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a status whose changes are written at once.

    The success of one more replica is not: either the end of the job follows, or no action does. Neither is the start
    of an evaluation gang: a reconcile before its write creates a deleted member again in the same attempt. The last
    checkpoint of a job that is being suspended is, and so are its successes: the pod that reports them is gone soon
    after, and another process has no other source.
    """
    stopping = status.get("phase") in _STOPPING
    throttled = _THROTTLED - {"progress"} if stopping else _THROTTLED
    of_gang = _THROTTLED_OF_GANG - {"completed"} if stopping else _THROTTLED_OF_GANG
    rest = {k: v for k, v in status.items() if k not in throttled}
    records = rest.get("gangs", {}).items()
    rest["gangs"] = {name: {k: v for k, v in r.items() if k not in of_gang} for name, r in records}
    return rest


_THROTTLED_OF_GANG: Final = frozenset({"completed", "ran", "starting", "progress"})
