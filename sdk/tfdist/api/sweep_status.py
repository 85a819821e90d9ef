"""The status of a TFDistSweep, as observed by the controller."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from tfdist.api.base import ApiModel, list_map
from tfdist.api.condition import StatusCondition
from tfdist.api.gang_status import ShortText
from tfdist.api.scalars import Amount, Path, Time, Whole
from tfdist.api.sweep_parameters import Value
from tfdist.api.sweep_resource import MAX_PARAMETERS, MAX_RUNGS, MAX_TRIALS

Parameters = Annotated[dict[str, Value], Field(max_length=MAX_PARAMETERS)]


class SweepPhase(StrEnum):
    """Phase of a sweep: a summary of its conditions."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"


class SweepConditionType(StrEnum):
    """Condition types of a sweep. At most one of `Succeeded` and `Failed` is ever True."""

    INVALID = "Invalid"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class SweepCondition(StatusCondition):
    """A condition, as in Kubernetes' API conventions."""

    type: SweepConditionType


class TrialPhase(StrEnum):
    """Phase of a trial."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    STOPPED = "Stopped"
    FAILED = "Failed"


class TrialCounts(ApiModel):
    """Number of trials by phase."""

    total: Whole
    """Number of trials of the sweep."""
    running: Whole = 0
    """Trials whose jobs exist and have neither finished nor been stopped."""
    succeeded: Whole = 0
    """Trials whose jobs succeeded."""
    stopped: Whole = 0
    """Trials that were stopped early."""
    failed: Whole = 0
    """Trials whose jobs failed."""


class BestTrial(ApiModel):
    """One of the best trials."""

    trial: Whole
    """Number of the trial, from 0."""
    job: ShortText
    """Name of its job."""
    parameters: Parameters
    """Its values by parameter name."""
    value: float
    """Best value of the metric."""
    step: Whole
    """Training step of that value."""
    checkpoint: Path | None = None
    """Path of the checkpoint with that value. Not set without checkpoints."""


class TrialResult(ApiModel):
    """Result of one trial; it stays when its job is deleted."""

    trial: Whole
    """Number of the trial, from 0."""
    phase: TrialPhase
    """Phase of the trial."""
    parameters: Parameters
    """Its values by parameter name."""
    value: float | None = None
    """Best value of the metric so far."""
    step: Whole | None = None
    """Training step of that value."""
    reason: Annotated[str | None, Field(max_length=256)] = None
    """Reason of its end, such as `Crash` or `StoppedEarly`."""
    gpu_seconds: Amount | None = None
    """GPU seconds that its job has used, see `status.usage` of the job."""
    cpu_seconds: Amount | None = None
    """CPU seconds that its job has used."""


class RungStatus(ApiModel):
    """A rung of early stopping: a training step at which trials are compared."""

    step: Whole
    """Training step of the rung."""
    values: Annotated[dict[str, float], Field(max_length=MAX_TRIALS)]
    """Metric of each trial that has reached the rung, by number of the trial."""


class TFDistSweepStatus(ApiModel):
    """Most recently observed status of the sweep. Populated by the controller. Read-only."""

    phase: SweepPhase | None = None
    """Phase of the sweep: a summary of `conditions`."""
    conditions: Annotated[list[SweepCondition] | None, Field(max_length=16, json_schema_extra=list_map("type"))] = None
    """Conditions of the sweep."""
    observed_generation: int | None = None
    """`metadata.generation` that the status was derived from."""
    trials: TrialCounts | None = None
    """Number of trials by phase."""
    best: Annotated[list[BestTrial] | None, Field(max_length=MAX_TRIALS)] = None
    """The `keepBest` best trials, best first."""
    results: Annotated[list[TrialResult] | None, Field(max_length=MAX_TRIALS, json_schema_extra=list_map("trial"))] = (
        None
    )
    """Result of each trial that was created, by number."""
    rungs: Annotated[list[RungStatus] | None, Field(max_length=MAX_RUNGS)] = None
    """Rungs of early stopping, lowest first."""
    active_since: Time | None = None
    """Time at which the sweep started or was last resumed."""
    start_time: Time | None = None
    """Time at which the first trial was created."""
    completion_time: Time | None = None
    """Time at which the sweep finished."""
