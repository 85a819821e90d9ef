"""The status of a TFDistJob, as observed by the controller."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from tfdist.api.base import ApiModel, list_map
from tfdist.api.condition import StatusCondition
from tfdist.api.gang_status import GangStatus, SchedulingStatus, ShortText
from tfdist.api.history_status import MAX_ATTEMPTS, MAX_POINTS, AttemptStatus, ProgressPoint, Usage
from tfdist.api.scalars import Amount, Metrics, Path, Time, Whole
from tfdist.contract import RETURNED_VALUE_BYTES

MAX_KEPT_SPECIFICATION: Final = 131072
"""Largest size, in characters, of a specification in `status.specifications`."""


class JobPhase(StrEnum):
    """Phase of a job: a summary of its conditions, derived from them."""

    PENDING = "Pending"
    QUEUED = "Queued"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    EVALUATING = "Evaluating"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"


class ConditionType(StrEnum):
    """Condition types of a job. At most one of `Succeeded` and `Failed` is ever True."""

    INVALID = "Invalid"
    PODS_READY = "PodsReady"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    STALLED = "Stalled"
    EVALUATED = "Evaluated"
    DEGRADED = "Degraded"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class JobCondition(StatusCondition):
    """A condition, as in Kubernetes' API conventions."""

    type: ConditionType


class ReplicaCounts(ApiModel):
    """Number of replicas of one role, by state."""

    desired: int
    """Desired number of replicas."""
    pending: int
    """Replicas whose pods have not started: unscheduled, or waiting for an image or a volume."""
    running: int
    """Replicas whose pods have started and not terminated."""
    ready: int
    """Running replicas whose pods are ready."""
    succeeded: int
    """Replicas that exited with code 0."""
    failed: int
    """Replicas that exited with another code, or whose pods were lost."""


class CheckpointStatus(ApiModel):
    """The last complete checkpoint."""

    step: Whole
    """Training step of the checkpoint."""
    path: Path
    """Path or URL of the checkpoint."""
    time: Time | None = None
    """Time at which the checkpoint was completed."""


class Progress(ApiModel):
    """Training progress, as reported by the replica that leads the training gang."""

    step: Whole | None = None
    """Number of completed training steps."""
    total_steps: Whole | None = None
    """Total number of training steps."""
    percent: Annotated[int | None, Field(ge=0, le=100)] = None
    """Completed part of training in percent, 0 to 100."""
    epoch: Whole | None = None
    """Current epoch, from 0."""
    eta_seconds: Whole | None = None
    """Estimated seconds until training completes."""
    examples_per_second: Amount | None = None
    """Training throughput of the whole gang, in examples per second."""
    step_time_millis: Amount | None = None
    """Duration of a training step in milliseconds."""
    metrics: Metrics | None = None
    """Training metrics over the last steps, such as `loss`."""
    last_checkpoint: CheckpointStatus | None = None
    """The last complete checkpoint."""
    slowest_replica: ShortText | None = None
    """Replica of a synchronous gang, such as `worker-3`, that takes much longer than the others for its part of a step,
    so that they wait for it. Not set if there is none, or if the program does not report it."""
    reported_at: Time | None = None
    """Time at which the controller received the report."""


class EvaluationResult(ApiModel):
    """Result of one evaluation: of a checkpoint, or of the validation data of `fit` in a script."""

    step: Whole
    """Training step of the evaluated model."""
    checkpoint: Path | None = None
    """Path of the checkpoint with the evaluated model. Not set if a script did not save it."""
    metrics: Metrics
    """Metrics over all examples. They are exact: sums and counts are aggregated over the replicas."""
    examples: Whole | None = None
    """Number of evaluated examples; each is counted once. Not set for the validation data of a script whose size is not
    known."""
    time: Time | None = None
    """Time at which the evaluation completed."""


class EvaluationStatus(ApiModel):
    """Evaluation results."""

    latest: EvaluationResult | None = None
    """The most recent result."""
    best: EvaluationResult | None = None
    """The result with the best `evaluation.metric`; of a script without `evaluation` that with the lowest `loss`."""
    final: EvaluationResult | None = None
    """The result for the last checkpoint."""


class ExportResult(ApiModel):
    """An exported model."""

    directory: Path
    """Folder with its formats, `model.keras` and `saved_model`."""
    step: Whole
    """Training step of the model."""


class ExportStatus(ApiModel):
    """Exported models, see `training.export`."""

    final: ExportResult | None = None
    """The model of the last step."""
    best: ExportResult | None = None
    """The model of the best evaluation."""


class FunctionResult(ApiModel):
    """What the function of the job has returned on the chief or, without one, on worker 0; one of the fields is set."""

    value: Annotated[str | None, StringConstraints(max_length=RETURNED_VALUE_BYTES)] = None
    """JSON of the value."""
    problem: Annotated[str | None, StringConstraints(max_length=1024)] = None
    """Why there is no JSON of it: its type, or its size."""


class ReplicaFailure(ApiModel):
    """A failure of a replica."""

    time: Time
    """Time at which the replica terminated."""
    attempt: int
    """Number of the attempt that failed, from 0."""
    round: int | None = None
    """Round of the attempt, from 0, if the launchers restart the gang in place."""
    role: ShortText
    """Role of the replica."""
    index: int
    """Index of the replica in its role."""
    pod: ShortText
    """Name of the pod."""
    node: ShortText | None = None
    """Name of the node."""
    exit_code: int | None = None
    """Exit code of the container `tensorflow`."""
    signal: int | None = None
    """Number of the signal that terminated the container."""
    reason: Annotated[str, Field(max_length=256)]
    """Reason of the failure, such as `Crash` or `UserError`."""
    message: Annotated[str, Field(max_length=1024)]
    """Termination message of the replica."""
    stacks: Annotated[str | None, Field(max_length=4096)] = None
    """Stack traces of a stalled gang."""
    counted: bool
    """Whether the restart counts against `runPolicy.backoffLimit`."""
    root_cause: bool
    """Whether the failure is the root cause of the end of the attempt; other failures are its consequence."""


class RestartCounts(ApiModel):
    """Restart counters."""

    counted: int = 0
    """Total number of counted restarts."""
    uncounted: int = 0
    """Total number of uncounted restarts, which the cluster caused."""
    since_checkpoint: int = 0
    """Counted restarts since the last new checkpoint; limited by `runPolicy.backoffLimit`."""


class TensorBoardStatus(ApiModel):
    """The TensorBoard of the job."""

    service: ShortText
    """Name of the Service; connect with `kubectl port-forward service/NAME 6006`."""


class Summary(ApiModel):
    """Text of the columns of `kubectl get`."""

    ready: ShortText | None = None
    """Ready and desired replicas, such as `2/2`."""
    progress: ShortText | None = None
    """Completed part of training, such as `40%`."""
    eta: ShortText | None = None
    """Estimated time until training completes, such as `1m20s`."""
    metric: Annotated[str | None, Field(max_length=512)] = None
    """Value of `evaluation.metric`, such as `accuracy=0.8831`."""
    restarts: ShortText | None = None
    """Number of restarts, counted and uncounted; resuming a suspended job is not a restart."""
    message: Annotated[str | None, Field(max_length=4096)] = None
    """Reason of the phase, or what the job waits for."""


class TFDistJobStatus(ApiModel):
    """Most recently observed status of the job. Populated by the controller. Read-only."""

    phase: JobPhase | None = None
    """Phase of the job: a summary of `conditions`."""
    conditions: Annotated[list[JobCondition] | None, Field(max_length=16, json_schema_extra=list_map("type"))] = None
    """Conditions of the job."""
    observed_generation: int | None = None
    """`metadata.generation` that the status was derived from."""
    replicas: Annotated[dict[str, ReplicaCounts] | None, Field(max_length=16)] = None
    """Number of replicas by role and state."""
    selector: Annotated[str | None, Field(max_length=512)] = None
    """Label selector of the worker pods, for the `scale` subresource."""
    attempt: int | None = None
    """Number of the current attempt, from 0. It is set when the job starts."""
    restarts: RestartCounts | None = None
    """Restart counters."""
    progress: Progress | None = None
    """Training progress."""
    evaluation: EvaluationStatus | None = None
    """Evaluation results."""
    export: ExportStatus | None = None
    """Exported models."""
    function_result: FunctionResult | None = None
    """What the function has returned, of a job that calls a Python function (`tfdist.job`)."""
    failures: Annotated[list[ReplicaFailure] | None, Field(max_length=10)] = None
    """The last 10 failures, oldest first."""
    tensor_board: TensorBoardStatus | None = None
    """The TensorBoard of the job, while it exists."""
    scheduling: SchedulingStatus | None = None
    """Scheduling of the current gang."""
    gangs: Annotated[dict[str, GangStatus] | None, Field(max_length=16)] = None
    """Internal state of the controller by gang (`training`, `evaluator`, `evaluation`)."""
    specifications: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=MAX_KEPT_SPECIFICATION)]] | None, Field(max_length=4)
    ] = None
    """Internal state of the controller: earlier specifications that running pods are made of, as JSON by generation."""
    restarted_at: Annotated[str | None, StringConstraints(max_length=64)] = None
    """Value of the annotation `tfdist.dev/restartedAt` that the controller last acted on."""
    active_since: Time | None = None
    """Time at which the job started or was last resumed."""
    usage: Usage | None = None
    """Resource usage over all attempts."""
    attempts: Annotated[list[AttemptStatus] | None, Field(max_length=MAX_ATTEMPTS)] = None
    """The last 20 attempts, oldest first; of the evaluation in a job without training."""
    history: Annotated[list[ProgressPoint] | None, Field(max_length=MAX_POINTS)] = None
    """Training progress over time, at most 120 points, oldest first; with more, every second older one is left out."""
    start_time: Time | None = None
    """Time at which all replicas of the gang were first running."""
    completion_time: Time | None = None
    """Time at which the job finished."""
    summary: Summary | None = None
    """Text of the columns of `kubectl get`."""

    def to_json(self) -> dict[str, Any]:
        """Return the status as the API server stores it: without fields that are not set."""
        content = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"gangs"})
        gangs = None if self.gangs is None else {name: gang.to_json() for name, gang in self.gangs.items()}
        return content if gangs is None else content | {"gangs": gangs}
