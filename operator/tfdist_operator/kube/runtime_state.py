"""Runtime state of jobs: what this process keeps in memory between two reconciles. All of it may be lost at an exit."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from tfdist.contract_reports import ProgressReport
from tfdist.desired.objects import ObjectName
from tfdist.observed.job_view import KubeletWarning, ProbeResult, StepCadence, TimestampedReport
from tfdist_operator.kube.event_budget import EventBudget
from tfdist_operator.kube.keys import NamespacedName


@dataclass(slots=True)
class JobRuntimeState:
    """State of one job; its UID distinguishes it from another job of the same name."""

    uid: str
    observed_since: str = ""
    """When this process first reconciled the job, RFC 3339."""
    report: TimestampedReport | None = None
    """The leader's last progress report."""
    evaluated: ProgressReport | None = None
    """The evaluator's last report with a result."""
    unreadable: bool = False
    """Whether the last answer to a poll was no valid report; this is logged once."""
    answered_at: float | None = None
    """When the leader last answered a poll, on the monotonic clock."""
    silent: bool = False
    """Whether the leader has been unresponsive for long."""
    pace: StepCadence | None = None
    """Progress of the steps of the current attempt."""
    evidence: ProbeResult | None = None
    """Result of the diagnosis of a stalled attempt."""
    completed: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Replicas that had succeeded at the newest reconcile, by gang, with the attempt."""
    failure_seen_at: Mapping[str, datetime] = field(default_factory=dict)
    """Pods that have failed or are terminating, and when this process first observed that."""
    status_written_at: float = -math.inf
    """When this process last wrote the status, on the monotonic clock; -inf before its first write."""
    rejected_fields: frozenset[tuple[str, str]] = frozenset()
    """Fields of the status that the API server rejects (`reconcile.status_writer`)."""
    rejected_until: float = 0.0
    """When they are written again, on the monotonic clock."""
    kubelet_warning: KubeletWarning | None = None
    """The newest warning event of a pod that does not start."""
    pod_events_read_at: float = -math.inf
    """When events of a pod were last read, on the monotonic clock."""
    create_error: str = ""
    """Message of the API server at the last creation, if it was rejected."""
    workload_error: str = ""
    """Message of the API server at the last change of the Workload, if it was rejected."""
    rejected_generation: int | None = None
    """Generation of the specification whose pods the API server rejects as invalid."""
    rejected_at: float = 0.0
    """Time of the last such rejection, on the monotonic clock."""
    forbidden_since: float | None = None
    """Since when the controller's roles have not allowed a creation, on the monotonic clock."""
    applied: dict[ObjectName, Mapping[str, str]] = field(default_factory=dict)
    """Objects other than pods that this process has created or changed, with their labels."""
    repairs: int = 0
    """Number of repairs of the job's objects in the last minutes."""
    repaired_at: float = 0.0
    """Time of the last repair, on the monotonic clock."""
    repair_due: float | None = None
    """When the next repair is due, on the monotonic clock."""
    other_controller_reported: str = ""
    """The other controller that acts on the job, once an event has reported it."""
    events: EventBudget = field(default_factory=EventBudget)
    """Remaining budget of restart events."""
    tensorboard_error: tuple[int, str] | None = None
    """Generation, and message of the API server, if it rejected the last TensorBoard."""
    tensorboard_retry_at: float = 0.0
    """When the rejected TensorBoard is retried, on the monotonic clock."""

    def is_rejected(self, generation: int) -> bool:
        """Return whether the API server rejects the pods of that generation as invalid."""
        return self.rejected_generation == generation


class RuntimeStateStore:
    """Runtime states by key of the job, created at first use."""

    def __init__(self) -> None:
        self._jobs: dict[NamespacedName, JobRuntimeState] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, key: NamespacedName, uid: str) -> JobRuntimeState:
        """Return the state of the job with this key and UID; that of an earlier job of the name is evicted."""
        known = self._jobs.get(key)
        if known is None or known.uid != uid:
            known = self._jobs[key] = JobRuntimeState(uid)
        return known

    def evict(self, key: NamespacedName) -> None:
        """Remove the state of a deleted job."""
        self._jobs.pop(key, None)
