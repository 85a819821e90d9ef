"""Everything that planning one job may look at: the job, its pods, what its coordinator last reported."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.contract_reports import ProgressReport
from tfdist.validation import Problem
from tfdist_operator.observed.pod import PodSummary


@dataclass(frozen=True, slots=True)
class Report:
    """A progress report and when it was read (RFC 3339)."""

    content: ProgressReport
    read_at: str


@dataclass(frozen=True, slots=True)
class Pace:
    """How the steps of an attempt follow each other, as this process has seen it.

    `moved_at` (RFC 3339) is when the newest step, checkpoint or phase was first seen; `longest_gap_seconds` is the
    longest time between two moves, of `moves` in all.
    """

    attempt: int
    moved_at: str
    longest_gap_seconds: float = 0.0
    moves: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the replicas said of themselves when they were asked: who is behind, and where each one stands."""

    about: str
    """What was asked about: the attempt, and since when it stands still."""
    behind: str
    """Name of the replica that did not answer, or that has done the fewest steps."""
    stacks: str
    silent: tuple[str, ...] = ()
    """Names of the replicas that did not answer."""


@dataclass(frozen=True, slots=True)
class JobView:
    """One look at one job.

    `job` is None exactly when `problems` says why. `status` is the stored status as JSON. `pods` holds every pod
    that carries the job's UID, of any attempt.
    """

    job: TFDistJob | None
    problems: tuple[Problem, ...]
    generation: int
    status: Mapping[str, Any]
    pods: tuple[PodSummary, ...]
    managed_by: str | None = None
    """Who is to run the job, where it says so; known of an invalid one too."""
    template: str = ""
    """Fingerprint of what pods are made of now."""
    deleting: bool = False
    """Whether somebody has deleted the job, and Kubernetes is removing what belongs to it."""
    report: Report | None = None
    evaluated: ProgressReport | None = None
    """The evaluator's last report that told a result."""
    pace: Pace | None = None
    evidence: Evidence | None = None
    completed: Mapping[str, tuple[int, frozenset[str]]] = field(default_factory=dict)
    """Who has ended with success by the newest look, by gang, with the attempt: the status learns of it later."""
    seconds_since_status_write: float | None = None
    """None: not written by this process yet."""
    refusal: str = ""
    """What the API server answered to the last creation, where it refused; "" after a success."""
    taken_over: bool = False
    """Whether the status is another process's: what that one did not live to tell is told by this one."""
    swept: bool = False
    """Whether this process has removed the Service of the ended job."""
    tensorboard_of: int | None = None
    """Generation for which this process has made the job's TensorBoard."""
    tensorboard_removed: bool = False
    """Whether this process has removed it."""
