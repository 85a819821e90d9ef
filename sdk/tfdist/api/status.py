"""The status of a TFDistJob: what the controller observed, for people and for programs.

The controller writes plain JSON on its hot path; these models are the schema of it, and a test holds the two
against each other.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from tfdist.api.base import ApiModel, list_map


class JobPhase(StrEnum):
    """A summary of the conditions in one word, derived from them."""

    PENDING = "Pending"
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
    """The conditions of a job. At most one of `Succeeded` and `Failed` is ever True."""

    INVALID = "Invalid"
    PODS_READY = "PodsReady"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    STALLED = "Stalled"
    EVALUATED = "Evaluated"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Condition(ApiModel):
    """One condition, as Kubernetes' API conventions define it."""

    type: ConditionType
    """What it is about."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=256)]
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=4096)]
    """Why, in words: what was wrong, where, what to do."""
    observed_generation: int
    """Generation of the spec that it was derived from."""
    last_transition_time: str
    """When `status` last changed, RFC 3339."""


class ReplicaCounts(ApiModel):
    """How the replicas of one role are."""

    desired: int
    """Number wanted."""
    pending: int
    """Waiting for a node, an image or a volume."""
    running: int
    """Started and not ended."""
    ready: int
    """Running and ready."""
    succeeded: int
    """Ended with exit code 0."""
    failed: int
    """Ended with another exit code, or lost."""


class CheckpointStatus(ApiModel):
    """The last complete checkpoint."""

    step: int
    """Step it was taken at."""
    path: str
    """Where it is."""
    time: str
    """When, RFC 3339."""


class Progress(ApiModel):
    """How far training is, as the coordinating replica reports it."""

    step: int | None = None
    """Finished steps."""
    total_steps: int | None = None
    """Steps in all."""
    percent: int | None = None
    """Finished part, 0 to 100."""
    epoch: int | None = None
    """Epoch, from 0."""
    eta_seconds: int | None = None
    """Estimated seconds to the end of training."""
    examples_per_second: float | None = None
    """Examples that the whole gang learns from in a second."""
    step_time_millis: float | None = None
    """Milliseconds that a step takes."""
    metrics: dict[str, float] | None = None
    """Metrics over the last steps of training, such as `loss`."""
    last_checkpoint: CheckpointStatus | None = None
    """The last complete checkpoint."""
    slowest_replica: str | None = None
    """Replica that the others wait for, as `worker-3`."""
    reported_at: str | None = None
    """When the replica was asked, RFC 3339: how old the rest is."""


class EvaluationResult(ApiModel):
    """One finished evaluation."""

    step: int
    """Step of the checkpoint."""
    checkpoint: str
    """Path of the checkpoint."""
    metrics: dict[str, float]
    """Metrics over all examples, exact: sums and counts are aggregated over the replicas."""
    examples: int
    """Number of examples, each counted once."""
    time: str
    """When it ended, RFC 3339."""


class EvaluationStatus(ApiModel):
    """Results of evaluation."""

    latest: EvaluationResult | None = None
    """The newest."""
    best: EvaluationResult | None = None
    """That with the best `evaluation.metric`."""
    final: EvaluationResult | None = None
    """That of the last checkpoint."""


class Failure(ApiModel):
    """One failure of a replica."""

    time: str
    """When the replica ended, RFC 3339."""
    attempt: int
    """Attempt that it ended."""
    round: int | None = None
    """Round of that attempt that it ended, where the launchers restarted the gang in place."""
    role: str
    """Role of the replica."""
    index: int
    """Index of the replica."""
    pod: str
    """Name of the pod."""
    node: str | None = None
    """Node it ran on."""
    exit_code: int | None = None
    """Exit code of the container `tensorflow`."""
    signal: int | None = None
    """Signal that ended it."""
    reason: str
    """Class of the failure, such as `Crash` or `UserError`."""
    message: str
    """What the replica said."""
    stacks: str | None = None
    """Where the replicas stood, of a job that got nowhere."""
    counted: bool
    """Whether it used up one of `runPolicy.backoffLimit`."""
    root_cause: bool
    """Whether it is what ended the attempt; other failures followed from it."""


class Restarts(ApiModel):
    """Restarts so far."""

    counted: int = 0
    """Those that count, in all."""
    uncounted: int = 0
    """Those caused by the cluster."""
    since_checkpoint: int = 0
    """Those that count, since the last new checkpoint: what `runPolicy.backoffLimit` limits."""


class TensorBoardStatus(ApiModel):
    """The job's TensorBoard."""

    service: str
    """Name of its Service; `kubectl port-forward service/NAME 6006` shows it."""


class Usage(ApiModel):
    """What the job used, summed over its replicas and attempts."""

    gpu_seconds: float | None = None
    """GPUs, each times its seconds."""
    cpu_seconds: float | None = None
    """Requested CPU cores, each times its seconds."""
    productive_seconds: float | None = None
    """Seconds of the gang whose steps were kept."""
    lost_seconds: float | None = None
    """Seconds of the gang whose steps were done again after a restart."""


class Summary(ApiModel):
    """Text for the columns of `kubectl get`."""

    ready: str | None = None
    """Ready and desired replicas, as `2/2`."""
    progress: str | None = None
    """Finished part, as `40%`."""
    eta: str | None = None
    """Estimated rest, as `1m20s`."""
    metric: str | None = None
    """The chosen metric, as `accuracy=0.8831`."""
    restarts: str | None = None
    """Restarts so far, counted or not; being suspended and resumed is none."""
    message: str | None = None
    """Why the job is in its phase, or what it waits for."""


class GangStatus(ApiModel):
    """What the controller remembers of one gang; absent fields are as at the beginning."""

    attempt: int
    """Number of the newest attempt, from 0."""
    floor: int | None = None
    """Attempt in which all replicas were last started together."""
    replaced: dict[str, int] | None = None
    """Replicas that were since replaced alone, and their attempts."""
    starting: list[str] | None = None
    """Those of them that have not run yet."""
    completed: list[str] | None = None
    """Replicas that ended with success; they are not started again, whatever becomes of their pods."""
    ran: bool | None = None
    """Whether all replicas have run in this attempt."""
    counted: int | None = None
    """Restarts that count."""
    uncounted: int | None = None
    """Restarts that the cluster caused."""
    since_checkpoint: int | None = None
    """Restarts that count, since the last new checkpoint."""
    free_since_checkpoint: int | None = None
    """Restarts that the cluster caused, since the last new checkpoint."""
    checkpoint_step: int | None = None
    """Step of the newest checkpoint at the last restart."""
    not_before: str | None = None
    """When the next attempt begins, RFC 3339."""
    launched: bool | None = None
    """Whether launchers restart this attempt in place."""
    told_counted: int | None = None
    """Restarts that count which the leading launcher knew of when it told last."""
    told_uncounted: int | None = None
    """The same of those that do not count."""
    told_failure: str | None = None
    """Failure that it told of last."""
    template: str | None = None
    """Fingerprint of what the pods of this attempt were made of."""
    avoided: list[str] | None = None
    """Nodes on which two attempts in a row failed."""


class TFDistJobStatus(ApiModel):
    """What the controller observed."""

    phase: JobPhase | None = None
    """Summary of the conditions in one word."""
    conditions: Annotated[list[Condition] | None, Field(max_length=16, json_schema_extra=list_map("type"))] = None
    """Conditions by type."""
    observed_generation: int | None = None
    """Generation of the spec that this status was derived from."""
    replicas: dict[str, ReplicaCounts] | None = None
    """How many replicas each role has, and how they are."""
    attempt: int | None = None
    """Number of the current attempt, from 0."""
    restarts: Restarts | None = None
    """Restarts so far."""
    progress: Progress | None = None
    """How far training is."""
    evaluation: EvaluationStatus | None = None
    """Results of evaluation."""
    failures: Annotated[list[Failure] | None, Field(max_length=10)] = None
    """The last 10 failures, newest last."""
    tensor_board: TensorBoardStatus | None = None
    """The job's TensorBoard."""
    gangs: dict[str, GangStatus] | None = None
    """What the controller remembers of each gang (training, evaluator, evaluation); for itself."""
    active_since: str | None = None
    """When the job was started or last resumed, RFC 3339."""
    usage: Usage | None = None
    """What the job used, over all attempts."""
    start_time: str | None = None
    """When the whole gang first ran, RFC 3339."""
    completion_time: str | None = None
    """When the job ended, RFC 3339."""
    summary: Summary | None = None
    """Text for the columns of `kubectl get`."""
