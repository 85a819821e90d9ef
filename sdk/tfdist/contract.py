"""What a replica is told: the contract between the controller and any trainer image.

The controller writes `TF_CONFIG` and `TFDIST_JOB` into a pod, reads its exit code, and what `tfdist.contract_reports`
has: the progress report and the termination message. Both sides use these models: what one would not understand fails
in a test, not at night.

Every model ignores fields it does not know when it reads: a controller and a trainer image of different versions work
together, and the newer one only adds optional fields.
"""

from enum import IntEnum, StrEnum
from typing import Any, Final

from pydantic import Field

from tfdist.contract_model import ContractModel

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
STANDBY_PORT_OFFSET: Final = 1
"""From the port of TensorFlow's server to that of a program in reserve; they change places with each round."""

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
    standby: bool | None = None
    """Whether the program of the next round is made ready while one trains. TensorFlow's servers of one round then
    listen at the ports of `TF_CONFIG`, those of the next `STANDBY_PORT_OFFSET` beyond."""
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
