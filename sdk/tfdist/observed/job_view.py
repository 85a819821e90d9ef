"""The observed state of one job: the only input of planning, apart from the time and the installation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.status import TFDistJobStatus
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.contract_reports import ProgressReport
from tfdist.observed.pod import PodSummary
from tfdist.render.written_directories import DirectoryField, WrittenDirectory
from tfdist.restarts.stall import StepPosition
from tfdist.scheduling.kueue import KUEUE, KueueView
from tfdist.validation import FieldError


@dataclass(frozen=True, slots=True)
class TimestampedReport:
    """A progress report, and when it was received (RFC 3339)."""

    content: ProgressReport
    read_at: str


@dataclass(frozen=True, slots=True)
class StepCadence:
    """Progress of an attempt over time, from its reports.

    `last_progress_at` (RFC 3339) is when the newest step, checkpoint or phase was first seen; `longest_pause_seconds`
    is the longest time between two of the `progress_count` changes.
    """

    attempt: int
    last_progress_at: str
    longest_pause_seconds: float = 0.0
    progress_count: int = 0
    role: Role | None = None
    """Role of the leader that reports: an evaluation follows training under the same attempt number."""
    position: str = ""
    """Progress in the newest report, as text (`observed.cadence`)."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Answers of probed replicas: which one is behind, and the stacks of each."""

    probe_id: str
    """Identity of the probe: the attempt, and since when it makes no progress."""
    behind: str
    """Name of the replica that did not answer, or that has done fewer steps than all others; "" if none is known."""
    stacks: str
    unresponsive: tuple[str, ...] = ()
    """Names of the replicas that did not answer; an unreadable answer counts as an answer."""
    positions: Mapping[str, StepPosition] = field(default_factory=dict)
    """Positions of the replicas that have reported, by name."""


@dataclass(frozen=True, slots=True)
class KubeletWarning:
    """The newest warning event of a pod that does not start: its status has no reason for it."""

    pod_uid: str
    text: str


@dataclass(frozen=True, slots=True)
class DirectoryUser:
    """Another job of the namespace that writes into a directory of this job, and comes first there."""

    name: str
    field: DirectoryField
    """The field of the other job."""
    written: WrittenDirectory
    """The directory, as this job writes it."""


@dataclass(frozen=True, slots=True)
class Contention:
    """The other jobs that have pods waiting for a node."""

    others: int = 0
    """Their number."""
    is_oldest: bool = True
    """Whether this job was created before all of them."""


def kubectl_logs(namespace: str, pod: PodSummary) -> str:
    """Return the command that shows the log of a pod."""
    return f"kubectl logs -n {namespace} {pod.name} -c {pod.container}"


def tfdist_stacks(namespace: str, job: str) -> str:
    """Return the command that shows the stacks of a job's replicas."""
    return f"tfdist stacks {job} -n {namespace}"


@dataclass(frozen=True, slots=True)
class StoredJob:
    """The specification of a job, as the API server stores it, and what was derived from it.

    `job` is None exactly when `problems` has the field errors.
    """

    job: TFDistJob | None
    problems: tuple[FieldError, ...]
    generation: int
    name: str = ""
    """Name of the job, also of an invalid one."""
    warnings: tuple[FieldError, ...] = ()
    """Warnings about a valid specification."""
    managed_by: str | None = None
    """`runPolicy.managedBy`, also of an invalid job."""
    template: str = ""
    """Fingerprint of the fields that its pods are created from; "" for an invalid job."""
    older: Mapping[int, TFDistJob] = field(default_factory=dict)
    """Earlier valid specifications that running pods use, if available, by generation."""
    partial: TFDistJob | None = None
    """The valid part of an invalid specification, with the replica counts of the running job; not for new pods."""
    restarted_at: str = ""
    """Value of the annotation that requests a restart; "" without one."""
    deleting: bool = False
    """Whether the job is terminating: Kubernetes deletes the objects that it owns."""


@dataclass(slots=True)
class RuntimeState:
    """Cached state of a job between two reconciles; it may be lost at any time. Plans only read it."""

    observed_since: str = ""
    """When this process first reconciled the job, RFC 3339."""
    report: TimestampedReport | None = None
    """The leader's last progress report."""
    evaluated: ProgressReport | None = None
    """The evaluator's last report with a result."""
    cadence: StepCadence | None = None
    """Progress of the steps of the current attempt."""
    probe_result: ProbeResult | None = None
    """Result of the diagnosis of a stalled attempt."""
    leader_unresponsive: bool = False
    """Whether the leader answered before and has not for `SILENT_SECONDS` of the poller."""
    completed: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Replicas that succeeded by the last reconcile, by gang, with the attempt: the status is written later."""
    failure_seen_at: Mapping[str, datetime] = field(default_factory=dict)
    """When this process first saw a pod failed or terminating, by name; the clocks of nodes differ."""
    kubelet_warning: KubeletWarning | None = None
    """Why a pod of this job does not start, by the event that was read last (`Plan.unexplained_pod`)."""
    create_error: str = ""
    """Error of the last creation; "" after a success."""
    rejected_generation: int | None = None
    """Generation of the specification whose pods the API server rejects as invalid."""

    def is_rejected(self, generation: int) -> bool:
        """Return whether the API server rejects the pods of that generation as invalid."""
        return self.rejected_generation == generation


@dataclass(frozen=True, slots=True)
class JobView:
    """The observed state of one job at one time. `pods` has every pod with the job's UID in its labels."""

    stored: StoredJob
    status: TFDistJobStatus
    """The stored status."""
    runtime: RuntimeState
    pods: tuple[PodSummary, ...]
    throttled_seconds: float = 0.0
    """Seconds until a status in which only counters changed may be written."""
    launcher_key: str = ""
    """Key for the Secret of the launchers, if that does not exist yet; random, and new with each reconcile."""
    log_of: Callable[[str, PodSummary], str] = kubectl_logs
    """Returns the location of a pod's log, given its namespace, for messages; a local run has files."""
    stacks_of: Callable[[str, str], str] = tfdist_stacks
    """Returns what shows the stacks of the replicas, given namespace and name of the job; "" if nothing does."""
    directory_user: DirectoryUser | None = None
    """The job that comes first in a directory of this one; None if that is this job in all of them."""
    systems: Mapping[GangSystem, Availability] = field(default_factory=dict)
    """Whether the API server serves the kinds of each gang scheduler; it lacks those that are not in it."""
    kueue: KueueView | None = None
    """None unless the Workloads of Kueue are served."""
    contention: Contention = Contention()
    """The other jobs that wait for nodes; not computed unless this one does."""

    @property
    def job(self) -> TFDistJob | None:
        """The specification; None for an invalid one."""
        return self.stored.job

    @property
    def problems(self) -> tuple[FieldError, ...]:
        """The field errors of an invalid specification."""
        return self.stored.problems

    @property
    def generation(self) -> int:
        """Generation of the specification."""
        return self.stored.generation

    def availability(self, system: GangSystem) -> Availability:
        """Return whether the API server serves the kinds of a gang scheduler."""
        if system is KUEUE.system and self.kueue is not None:
            return Availability.SERVED
        return self.systems.get(system, Availability.ABSENT)

    def with_job(self, job: TFDistJob | None) -> "JobView":
        """Return the view with another specification."""
        return replace(self, stored=replace(self.stored, job=job))
