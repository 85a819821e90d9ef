"""The contract between the controller and any trainer image: environment, ports, exit codes, phases and roles.

The controller sets `TF_CONFIG` and `TFDIST_JOB` in a pod; it reads the exit code, the progress report and the
termination message (`tfdist.contract_reports`). Both sides use these models, so that an incompatible change fails in a
test.

Every model ignores unknown fields: a controller and a trainer image of different versions work together, and a newer
version adds optional fields only.
"""

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from functools import cached_property, lru_cache
from typing import Any, Final

from pydantic import Field

from tfdist.contract_model import ContractModel, ReportModel, SmallCount, Step

JOB_ENV: Final = "TFDIST_JOB"
"""Environment variable with the JSON of a `ReplicaJob`."""

TF_CONFIG_ENV: Final = "TF_CONFIG"
"""Environment variable that TensorFlow's `TFConfigClusterResolver` reads. Absent for a single replica."""

REPORT_PORT_ENV: Final = "TFDIST_REPORT_PORT"

TERMINATION_LOG_ENV: Final = "TFDIST_TERMINATION_LOG"
"""Environment variable with the path of the termination message, if other than `/dev/termination-log`."""

TF_PORT: Final = 2222
"""Default port of TensorFlow's gRPC server."""
TF_PORT_NAME: Final = "tfdist-port"
STANDBY_PORT_OFFSET: Final = 1
"""Offset of the standby process's port from the port of TensorFlow's server; the two alternate with each round."""

REPORT_PORT: Final = 8790
"""Default port of the progress report."""

PROGRESS_PATH: Final = "/v1/progress"
STACKS_PATH: Final = "/v1/stacks"
HEALTH_PATH: Final = "/healthz"

MAIN_CONTAINER: Final = "tensorflow"
"""The container whose exit code is the replica's."""

TERMINATION_MESSAGE_BYTES: Final = 1024
"""Limit of a termination message, apart from the value that a function has returned."""
FUNCTION_SCRIPT: Final = "tfdist_call.py"
"""`training.script` of a job that calls a function."""
RETURNED_VALUE_BYTES: Final = 3000
"""Limit of the value that a function has returned, as a string of JSON in the termination message: of a longer message
the kubelet keeps the first 4096 bytes (ADR 57)."""

CODE_BYTES: Final = 256 << 20
"""Limit on the code of `training.source.archive` when it is unpacked."""
CODE_FILES: Final = 1 << 17
"""Limit on the files of the code, each of which takes memory while it is unpacked."""
STORED_CODE_BYTES: Final = 1 << 30
"""Limit on the code of `training.source.object` when it is unpacked."""

LAUNCH_PORT: Final = 8791
"""Default port on which the launcher of member 0 accepts the other members' launchers."""
LAUNCH_PORT_ENV: Final = "TFDIST_LAUNCH_PORT"
LAUNCH_KEY_ENV: Final = "TFDIST_LAUNCH_KEY"
"""Environment variable with the key of the job, from its Secret. The launcher removes it before a program starts."""


class ExitCode(IntEnum):
    """Exit codes of a replica; the numbers from 64 on come from BSD's `sysexits.h`."""

    DONE = 0
    PREEMPTED = 42
    USAGE = 64
    DATA_MALFORMED = 65
    DATA_MISSING = 66
    SOFTWARE = 70
    DEVICE_MISSING = 71
    CHECKPOINT_UNWRITABLE = 73
    STORAGE = 74
    PEER_LOST = 75
    CONFIGURATION = 78


class Phase(StrEnum):
    """Phase of a replica in its progress report."""

    STARTING = "starting"
    RENDEZVOUS = "rendezvous"
    COMPILING = "compiling"
    TRAINING = "training"
    CHECKPOINTING = "checkpointing"
    EVALUATING = "evaluating"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    """Stands for a phase of another version."""


class Role(StrEnum):
    """Role of a replica. `EVALUATION` is a member of the gang that evaluates after training."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"
    EVALUATION = "evaluation"


@lru_cache(8192)
def replica_name(role: str, index: int) -> str:
    """Return the name of a replica: in messages, and as its host name, which is the same in every attempt."""
    return f"{role}-{index}"


class Task(StrEnum):
    """Task of a gang."""

    TRAIN = "Train"
    EVALUATE = "Evaluate"


class Training(ContractModel):
    """`spec.training`: the program, and its configuration, which the program validates."""

    program: str
    config: dict[str, Any] = Field(default_factory=dict)


class CheckpointSettings(ContractModel):
    """`spec.checkpoint` with its placeholders expanded."""

    directory: str
    every_steps: int | None = None
    every_seconds: int | None = None
    keep: int = 3
    restore: str = "Latest"


class ExportSettings(ContractModel):
    """`spec.training.export` with its placeholders expanded; the names are as in the specification."""

    directory: str
    formats: list[str]
    which: list[str]


class Restarts(ReportModel):
    """Restart counters of a gang, as in `status.gangs`."""

    counted: SmallCount = 0
    """Total number of counted restarts."""
    uncounted: SmallCount = 0
    """Total number of uncounted restarts."""
    since_checkpoint: SmallCount = 0
    """Counted restarts since the last new checkpoint; limited by `backoff_limit`."""
    uncounted_since_checkpoint: SmallCount = 0
    """Uncounted restarts since the last new checkpoint."""
    checkpoint_step: Step = -1
    """Step of the newest checkpoint at the last restart, -1 for none."""
    short_attempts: SmallCount = 0
    """Attempts in a row that ran for less than ten minutes, whatever they reported; the back-off depends on it."""


class LaunchMember(ContractModel):
    """A member of a gang, as in the settings of its leading launcher."""

    role: Role
    index: int
    attempt: int = 0
    """Attempt of its pod; the launcher of an earlier attempt is rejected."""
    required_for_success: bool = True
    """Whether the gang succeeds only after this member has; False for a parameter server."""


class LaunchMemberRange(LaunchMember):
    """`count` members of consecutive indexes from `index` on, which have all else in common."""

    count: int

    @property
    def members(self) -> list[LaunchMember]:
        """The members of the range, in order of index."""
        shared = self.model_dump(exclude={"count", "index"})
        return [LaunchMember(index=self.index + i, **shared) for i in range(self.count)]

    def continues(self, member: LaunchMember) -> bool:
        """Return whether `member` can be added to the end of the range."""
        return member == LaunchMember(index=self.index + self.count, **self.model_dump(exclude={"count", "index"}))


class LeaderSettings(ContractModel):
    """Settings of the leading launcher: the members of the gang and the limits of restarts."""

    member_ranges: list[LaunchMemberRange]
    """All members in order of rank; rank 0 leads. One by one they would exceed the size of an environment variable."""
    backoff_limit: int = 3
    rules: list[dict[str, Any]] = Field(default_factory=list)
    """`spec.failurePolicy.rules`."""
    first_delay_seconds: float = 10.0
    """Delay in seconds before the second restart in a row, see `restarts.budget`; it doubles with each further one."""
    progress_deadline_seconds: int | str | None = None
    """Seconds without a completed step after which the gang is stalled; `Auto` derives them from the steps so far; None
    disables the deadline."""
    prior_restarts: Restarts = Field(default_factory=Restarts)
    """Restarts before the pods of this attempt were created."""

    @cached_property
    def members(self) -> list[LaunchMember]:
        """All members in order of rank."""
        return [member for each in self.member_ranges for member in each.members]


def member_ranges(members: Iterable[LaunchMember]) -> list[LaunchMemberRange]:
    """Return `members` as ranges, in the same order."""
    ranges: list[LaunchMemberRange] = []
    for member in members:
        if ranges and ranges[-1].continues(member):
            ranges[-1] = ranges[-1].model_copy(update={"count": ranges[-1].count + 1})
        else:
            ranges.append(LaunchMemberRange(count=1, **member.model_dump()))
    return ranges


class LaunchSettings(ContractModel):
    """Settings of a launcher, which restarts the gang in place; absent if only the controller restarts it."""

    leader: str
    """`host:port` of the leading launcher."""
    rank: int
    """Rank of this replica among the members; rank 0 leads."""
    standby: bool | None = None
    """Whether a standby process for the next round is started while the current one trains. TensorFlow's servers then
    alternate between the ports of `TF_CONFIG` and `STANDBY_PORT_OFFSET` above them, round by round."""
    gang_attempt: int = 0
    """Attempt in which all replicas were last started together; the token of its launchers is of it."""
    gang: LeaderSettings | None = None
    """Set for rank 0 only: with hundreds of replicas it would be most of every pod's size."""


DEFAULT_GRACE_SECONDS: Final = 30
"""Kubernetes' default for `terminationGracePeriodSeconds`: seconds between SIGTERM and SIGKILL."""
_MARGIN_SECONDS: Final = 5
"""Left of the grace period, in which the process ends and its termination message is written."""


class ReplicaJob(ContractModel):
    """`TFDIST_JOB`: the job as one replica needs it, in addition to `TF_CONFIG`."""

    name: str
    namespace: str
    uid: str
    cluster: str | None = None
    """Identifies the cluster, or the machine of a local run, in which the job has its name; None if it is unknown."""
    strategy: str
    task: Task = Task.TRAIN
    role: Role
    index: int
    attempt: int = 0
    replicas: dict[str, int]
    """Number of replicas of each role in this replica's own gang."""
    addresses: dict[str, list[str]] = Field(default_factory=dict)
    """`host:port` of each replica of the gang, by role and in order of index; empty if `TF_CONFIG` has them."""
    training: Training | None = None
    checkpoint: CheckpointSettings | None = None
    export: ExportSettings | None = None
    evaluation: dict[str, Any] | None = None
    runtime: dict[str, Any] = Field(default_factory=dict)
    log_directory: str | None = None
    """Log directory of TensorBoard; None for the checkpoint directory."""
    launch: LaunchSettings | None = None
    termination_grace_period_seconds: int | None = None
    """The pod's grace period; None for Kubernetes' default."""
    gpus: int | None = None
    """Number of NVIDIA GPUs that its container is limited to, which are its own; None for none."""

    @property
    def saving_seconds(self) -> float:
        """Seconds after SIGTERM in which training may save: a little less than the grace period of the pod."""
        period = self.termination_grace_period_seconds
        return max(1.0, (DEFAULT_GRACE_SECONDS if period is None else period) - _MARGIN_SECONDS)
