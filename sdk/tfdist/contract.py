"""What a replica is told and what it tells: the contract between the controller and any trainer image.

The controller writes `TF_CONFIG` and `TFDIST_JOB` into a pod and reads the progress report, the exit code and the
termination message. Both sides use these models: what one would not understand fails in a test, not at night.

Every model ignores fields it does not know when it reads: a controller and a trainer image of different versions work
together, and the newer one only adds optional fields.
"""

from enum import IntEnum, StrEnum
from typing import Any, Final

from pydantic import Field

from tfdist.contract_model import ContractModel, Metrics

JOB_ENV: Final = "TFDIST_JOB"
"""Environment variable with the JSON of a `ReplicaJob`."""

TF_CONFIG_ENV: Final = "TF_CONFIG"
"""Environment variable that TensorFlow's `TFConfigClusterResolver` reads. Absent for a single replica."""

REPORT_PORT_ENV: Final = "TFDIST_REPORT_PORT"

TERMINATION_LOG_ENV: Final = "TFDIST_TERMINATION_LOG"
"""Names the file of the termination message where it is not a container's `/dev/termination-log`."""

TF_PORT: Final = 2222
"""Default port of TensorFlow's gRPC server."""
TF_PORT_NAME: Final = "tfdist-port"

REPORT_PORT: Final = 8790
"""Default port of the progress report."""

PROGRESS_PATH: Final = "/v1/progress"
STACKS_PATH: Final = "/v1/stacks"
HEALTH_PATH: Final = "/healthz"

MAIN_CONTAINER: Final = "tensorflow"
"""The container whose exit decides the outcome of a replica."""

TERMINATION_MESSAGE_BYTES: Final = 1024

LAUNCH_PORT: Final = 8791
"""Default port at which the launcher of a gang's member 0 meets those of the others."""
LAUNCH_PORT_ENV: Final = "TFDIST_LAUNCH_PORT"


class ExitCode(IntEnum):
    """Exit codes of a replica; the numbers from 64 on are those of BSD's `sysexits.h`."""

    DONE = 0
    STOPPED_ON_NOTICE = 42
    USAGE = 64
    DATA_MALFORMED = 65
    DATA_MISSING = 66
    SOFTWARE = 70
    CHECKPOINT_UNWRITABLE = 73
    STORAGE = 74
    PEER_LOST = 75
    CONFIGURATION = 78


class Phase(StrEnum):
    """What a replica is doing, as its progress report says."""

    STARTING = "starting"
    RENDEZVOUS = "rendezvous"
    COMPILING = "compiling"
    TRAINING = "training"
    CHECKPOINTING = "checkpointing"
    EVALUATING = "evaluating"
    FINISHED = "finished"


class Role(StrEnum):
    """The roles of a replica. `EVALUATION` is a member of the gang that evaluates after training."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"
    EVALUATION = "evaluation"


class Task(StrEnum):
    """What the gang that a replica belongs to does."""

    TRAIN = "Train"
    EVALUATE = "Evaluate"


class Training(ContractModel):
    """`spec.training`: the program and its own configuration, which the program validates."""

    program: str
    config: dict[str, Any] = Field(default_factory=dict)


class CheckpointSettings(ContractModel):
    """`spec.checkpoint` with placeholders replaced: where and how often checkpoints are written."""

    directory: str
    every_steps: int | None = None
    every_seconds: int | None = None
    keep: int = 3
    restore: str = "Latest"


class Restarts(ContractModel):
    """Restarts of a gang; `status.gangs` stores the same."""

    counted: int = 0
    """Those that count, in all."""
    uncounted: int = 0
    """Those that do not, in all."""
    since_checkpoint: int = 0
    """Those that count, since the last new checkpoint: what `backoff_limit` limits."""
    free_since_checkpoint: int = 0
    """Those that do not count, since the last new checkpoint."""
    checkpoint_step: int = -1
    """Step of the newest checkpoint at the last restart."""


class LaunchMember(ContractModel):
    """One member of a gang, as its launchers know it."""

    role: Role
    index: int
    attempt: int = 0
    """Attempt of its pod: the launcher of an earlier one is turned away."""
    decides: bool = True
    """Whether its success is needed for the gang's; a parameter server is never waited for."""


class LeaderSettings(ContractModel):
    """What the launcher that leads a gang is told: who belongs to it, and which limits hold."""

    members: list[LaunchMember]
    """All members in order of their seats; that of seat 0 leads."""
    backoff_limit: int = 3
    rules: list[dict[str, Any]] = Field(default_factory=list)
    """`spec.failurePolicy.rules`."""
    first_delay_seconds: float = 10.0
    """Delay before the second counted restart without a new checkpoint; it doubles with each further one."""
    progress_deadline_seconds: int | str | None = None
    """Seconds without a step after which the gang is stalled; `Auto` learns them; None: never."""
    used: Restarts = Field(default_factory=Restarts)
    """Restarts before this replica was made."""


class LaunchSettings(ContractModel):
    """How the launchers restart a gang in place; absent where the controller alone does it."""

    leader: str
    """`host:port` of the launcher that leads."""
    seat: int
    """The place of this replica among the members; the one at 0 leads."""
    gang: LeaderSettings | None = None
    """Told to the leader alone: in hundreds of replicas it would be most of what a pod holds."""


class ReplicaJob(ContractModel):
    """`TFDIST_JOB`: what one replica needs to know of its job beyond `TF_CONFIG`."""

    name: str
    namespace: str
    uid: str
    strategy: str
    task: Task = Task.TRAIN
    role: Role
    index: int
    attempt: int = 0
    replicas: dict[str, int]
    """Number of replicas of each role in this replica's own gang."""
    addresses: dict[str, list[str]] = Field(default_factory=dict)
    """`host:port` of each replica of each role in the gang, in order of index; left out where `TF_CONFIG` has them."""
    training: Training | None = None
    checkpoint: CheckpointSettings | None = None
    evaluation: dict[str, Any] | None = None
    runtime: dict[str, Any] = Field(default_factory=dict)
    log_directory: str | None = None
    """Where TensorBoard looks; None is below the checkpoint directory."""
    launch: LaunchSettings | None = None


class CheckpointReport(ContractModel):
    """The last complete checkpoint. `time` is RFC 3339 in UTC."""

    step: int
    path: str
    time: str


class EvaluationReport(ContractModel):
    """A finished evaluation: which checkpoint, over exactly how many examples, with which metrics."""

    step: int
    checkpoint: str
    metrics: Metrics
    examples: int
    time: str


class MemberReport(ContractModel):
    """One member of a gang, as the leader knows it."""

    role: Role
    index: int
    alive: bool
    """Whether its launcher is connected and its program runs and answers."""
    phase: Phase | None = None
    step: int | None = None
    input_wait_millis: float | None = None


class RoundFailure(ContractModel):
    """One failure that ended a round, or followed from one; as `status.failures` records those of pods."""

    id: str
    """Unique in the job: the same failure is told in many reports."""
    round: int
    role: Role
    index: int
    exit_code: int | None = None
    signal: int | None = None
    reason: str
    message: str
    stacks: str | None = None
    counted: bool = False
    root_cause: bool = False
    time: str
    step: int | None = None


class GangReport(ContractModel):
    """The whole gang, as the launcher that leads it sees it."""

    members: list[MemberReport]
    failures: list[RoundFailure] = Field(default_factory=list)
    """The latest, oldest first."""
    restarts: Restarts = Field(default_factory=Restarts)
    """Including those of `LeaderSettings.used`."""
    waiting_for: list[str] = Field(default_factory=list)
    """What the next round waits for, in words; empty while one runs."""


class GangEnd(ContractModel):
    """Why the launchers of a gang gave up; each of them exits with the code of this root cause."""

    role: Role
    index: int
    round: int
    reason: str
    """As `reason` of the failure, or `BackoffLimitExceeded`, `RepeatedError`, `FailurePolicy`."""
    restarts: Restarts


class ProgressReport(ContractModel):
    """The body of `GET /v1/progress`.

    Times are RFC 3339 in UTC; `examples` counts those of the whole gang since the start of training;
    `examples_per_second` is the whole gang's; durations are milliseconds of this replica.
    """

    role: Role
    index: int
    attempt: int
    round: int = 0
    phase: Phase
    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    examples: int | None = None
    examples_per_second: float | None = None
    step_time_millis: float | None = None
    input_wait_millis: float | None = None
    metrics: Metrics = Field(default_factory=dict)
    evaluation: EvaluationReport | None = None
    """The newest result of an evaluation."""
    best_evaluation: EvaluationReport | None = None
    """That of the best checkpoint, as the evaluator beside training judges."""
    final_evaluation: EvaluationReport | None = None
    """That of the last checkpoint of a finished training, once the evaluator has scored it."""
    last_checkpoint: CheckpointReport | None = None
    step_at: str | None = None
    gang: GangReport | None = None
    """Of the leader: the whole gang."""
    waiting_for: list[str] = Field(default_factory=list)
    """The addresses of members that have to come before this one can begin."""


class TerminationMessage(ContractModel):
    """What a replica writes to its termination log before it exits, at most 1 KiB in all."""

    reason: str
    message: str
    step: int | None = None
    attempt: int | None = None
    metrics: Metrics = Field(default_factory=dict)
    """The last training metrics: what the report port last said is gone with the pod."""
    last_checkpoint: CheckpointReport | None = None
    evaluation: EvaluationReport | None = None
    """The result of an evaluation gang, or the evaluator's last one, for the same reason."""
    best_evaluation: EvaluationReport | None = None
    """What the evaluator found best."""
    gang_end: GangEnd | None = None
    """Of a launcher that gave up: the report of the last round is gone with the leader."""
