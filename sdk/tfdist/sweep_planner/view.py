"""The observed state of one sweep: the only input of its planning, apart from the time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tfdist.api.status import ConditionType, JobPhase, TFDistJobStatus
from tfdist.api.sweep import TFDistSweep
from tfdist.api.sweep_status import TFDistSweepStatus
from tfdist.outcome import find_condition
from tfdist.status.phase import is_terminal, phase_of
from tfdist.validation import FieldError


@dataclass(frozen=True, slots=True)
class TrialJob:
    """The job that has the name of a trial."""

    status: TFDistJobStatus
    """Its stored status."""
    owned: bool = True
    """Whether the sweep owns it; another job of that name is not changed."""
    suspended: bool = False
    """`runPolicy.suspend`."""
    suspended_by_sweep: bool = False
    """Whether the sweep has suspended it, and may resume it."""
    deleting: bool = False
    """Whether it is being deleted."""

    @property
    def phase(self) -> JobPhase:
        """Phase of the job."""
        return phase_of(self.status)

    @property
    def is_finished(self) -> bool:
        """Whether it has succeeded or failed."""
        return is_terminal(self.status)

    @property
    def end(self) -> tuple[str, str]:
        """Reason and message of the condition that explains a job that failed or is invalid."""
        kinds = ConditionType.FAILED, ConditionType.INVALID
        condition = next((c for kind in kinds if (c := find_condition(self.status, kind)) and c.status == "True"), None)
        return (condition.reason, condition.message) if condition else ("Failed", "")


@dataclass(frozen=True, slots=True)
class SweepView:
    """The observed state of one sweep at one time. `sweep` is None exactly when `problems` has the field errors."""

    sweep: TFDistSweep | None
    problems: tuple[FieldError, ...]
    generation: int
    status: TFDistSweepStatus
    """The stored status."""
    jobs: Mapping[int, TrialJob] = field(default_factory=dict)
    """Jobs that have the names of trials, by number of the trial."""
    leftover: frozenset[int] = frozenset()
    """Trials whose names jobs of a deleted sweep of the same name still have: Kubernetes deletes those."""
    written_seconds_ago: float = float("inf")
    """Seconds since this process last wrote the status."""
    create_error: str = ""
    """Why the API server rejected the last creation of a job; "" after a success."""
    rejected: Mapping[int, str] = field(default_factory=dict)
    """Why the API server rejects the jobs of trials for good, by number of the trial."""
