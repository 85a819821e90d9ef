"""What a replica is told and what it tells: the contract between the controller and any trainer image.

The controller writes `TF_CONFIG` and `TFDIST_JOB` into a pod and reads the progress report, the exit
code and the termination message. Both sides use the models of this module, so a change that one side
would not understand fails in a test here and not in a cluster at night.

Every model ignores fields it does not know when it reads: a controller and a trainer image of different
versions work together, and the newer one only adds optional fields.
"""

from enum import IntEnum, StrEnum
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

JOB_ENV: Final = "TFDIST_JOB"
"""Environment variable with the JSON of a `ReplicaJob`."""

TF_CONFIG_ENV: Final = "TF_CONFIG"
"""Environment variable that TensorFlow's `TFConfigClusterResolver` reads. Absent for a single replica."""

REPORT_PORT_ENV: Final = "TFDIST_REPORT_PORT"

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


class ContractModel(BaseModel):
    """Camel-case JSON, immutable, tolerant of fields from a newer version."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)

    def to_json(self) -> str:
        """Return compact JSON with sorted keys and without absent fields, byte-equal for equal models."""
        import json  # noqa: PLC0415  a light module must stay light: most importers only want the constants

        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return json.dumps(data, sort_keys=True, separators=(",", ":"))


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
    """`host:port` of each replica of each role in the gang, in order of index."""
    training: Training | None = None
    checkpoint: CheckpointSettings | None = None
    evaluation: dict[str, Any] | None = None
    runtime: dict[str, Any] = Field(default_factory=dict)


class CheckpointReport(ContractModel):
    """The last complete checkpoint. `time` is RFC 3339 in UTC."""

    step: int
    path: str
    time: str


class EvaluationReport(ContractModel):
    """A finished evaluation: which checkpoint, over exactly how many examples, with which metrics."""

    step: int
    checkpoint: str
    metrics: dict[str, float]
    examples: int
    time: str


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
    metrics: dict[str, float] = Field(default_factory=dict)
    evaluation: EvaluationReport | None = None
    last_checkpoint: CheckpointReport | None = None
    step_at: str | None = None


class TerminationMessage(ContractModel):
    """What a replica writes to its termination log before it exits, at most 1 KiB in all."""

    reason: str
    message: str
    step: int | None = None
    attempt: int | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    """The last training metrics: what the report port last said is gone with the pod."""
    last_checkpoint: CheckpointReport | None = None
    evaluation: EvaluationReport | None = None
    """The result of an evaluation gang, for the same reason."""
