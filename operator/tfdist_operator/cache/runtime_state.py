"""Runtime state of jobs: what this process keeps in memory between two reconciles. All of it may be lost at an exit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tfdist.desired.objects import ObjectName
from tfdist.observed.job_view import RuntimeState
from tfdist_operator.kube.keys import NamespacedName

BURST: Final = 25
REFILL_SECONDS: Final = 300.0


@dataclass(slots=True)
class EventBudget:
    """A token bucket; times are on the monotonic clock."""

    left: float = float(BURST)
    at: float | None = None

    def spend(self, now: float) -> bool:
        """Take one token; return whether one was available."""
        # Refilled when it is used: no timer runs for jobs without events.
        if self.at is not None:
            self.left = min(float(BURST), self.left + (now - self.at) / REFILL_SECONDS)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(slots=True, kw_only=True)
class JobRuntimeState(RuntimeState):
    """State of one job; its UID distinguishes it from another job of the same name."""

    uid: str
    leader: str = ""
    """Name of the pod whose progress is polled, from the last plan; "" for none."""
    evaluator: str = ""
    """Name of the pod whose evaluation results are polled, from the last plan."""
    last_answer_unreadable: bool = False
    """Whether the last answer to a poll was not a valid report; this is logged once."""
    answered_at: float | None = None
    """When the leader last answered a poll, on the monotonic clock."""
    status_written_at: float = -math.inf
    """When this process last wrote the status, on the monotonic clock; -inf before its first write."""
    rejected_fields: frozenset[tuple[str, str]] = frozenset()
    """Fields of the status that the API server rejects (`reconcile.status_writer`)."""
    rejected_until: float = 0.0
    """When they are written again, on the monotonic clock."""
    pod_events_read_at: float = -math.inf
    """When events of a pod were last read, on the monotonic clock."""
    workload_error: str = ""
    """Message of the API server at the last change of the Workload, if it was rejected."""
    rejected_at: float = 0.0
    """Time of the last rejection of a pod as invalid, on the monotonic clock."""
    forbidden_since: float | None = None
    """Since when the controller's roles have not allowed a creation, on the monotonic clock."""
    applied: dict[ObjectName, Mapping[str, str]] = field(default_factory=dict)
    """Objects other than pods that this process has created or changed, with their labels."""
    plan_seconds: float = 0.0
    """CPU time of the last plan."""
    set_aside_until: float = 0.0
    """When the job is planned again, on the monotonic clock, because its plan took too long."""
    repairs: int = 0
    """Number of repairs of the job's objects in the last minutes."""
    repaired_at: float = 0.0
    """Time of the last repair, on the monotonic clock."""
    repair_due: float | None = None
    """When the next repair is due, on the monotonic clock."""
    other_controller_reported: str = ""
    """The other controller that acts on the job, once an event has reported it."""
    events: EventBudget = field(default_factory=EventBudget)
    """Remaining budget of events that pods report."""
    reported_event: str = ""
    """Reason and identity of the last event other than a restart that a pod reported; it is planned until the status
    records it."""
    tensorboard_error: tuple[int, str] | None = None
    """Generation, and message of the API server, if it rejected the last TensorBoard."""
    tensorboard_retry_at: float = 0.0
    """When the rejected TensorBoard is retried, on the monotonic clock."""


class RuntimeStateStore:
    """Runtime states by key of the job, created at first use."""

    def __init__(self) -> None:
        self._jobs: dict[NamespacedName, JobRuntimeState] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, key: NamespacedName, uid: str) -> JobRuntimeState:
        """Return the state of the job with this key and UID; the state of an earlier job of that name is evicted."""
        state = self._jobs.get(key)
        # Another job of the name starts without the state of the former.
        if state is None or state.uid != uid:
            state = self._jobs[key] = JobRuntimeState(uid=uid)
        return state

    def evict(self, key: NamespacedName) -> None:
        """Remove the state of a deleted job."""
        self._jobs.pop(key, None)
