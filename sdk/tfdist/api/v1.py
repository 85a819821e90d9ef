"""The TFDistJob resource, `tfdist.dev/v1`: the one source of the CRD, its checks and its reference page.

This is the first cut: one served version, extended only by optional fields. A field exists here when the
controller acts on it; nothing is accepted that would be ignored.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from tfdist.api.base import OPEN_OBJECT, ApiModel, rules
from tfdist.api.base import cel as rule
from tfdist.api.pod_fields import Name, PodFields, Text

GROUP: Final = "tfdist.dev"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "TFDistJob"
PLURAL: Final = "tfdistjobs"
MAX_NAME_LENGTH: Final = 45
"""Longest job name: every pod name made from it stays within a DNS label's 63 characters."""


class Strategy(StrEnum):
    """How TensorFlow distributes the work; it decides cluster spec and restart domain."""

    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    ONE_DEVICE = "OneDevice"


class RoleSpec(PodFields):
    """The replicas of one role; what is set here goes before the job's short forms."""

    replicas: Annotated[int, Field(ge=1, le=10000)] = 1
    """Number of replicas."""


class ChiefSpec(PodFields):
    """The chief: one replica that leads the gang and writes checkpoints; without it worker 0 does."""

    replicas: Annotated[int, Field(ge=0, le=1)] = 1
    """0 or 1."""


class TrainingSpec(ApiModel):
    """What the bundled trainer runs."""

    program: Name
    """A built-in program, such as `image_classification`."""
    config: Annotated[dict[str, Any] | None, Field(json_schema_extra=OPEN_OBJECT)] = None
    """The program's own settings, which it checks itself."""


class CheckpointSpec(ApiModel):
    """Where and how often the chief saves, and what is restored at a start."""

    directory: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """Path in the pods; `{name}`, `{namespace}` and `{uid}` are replaced by the job's."""
    every_steps: Annotated[int, Field(ge=1)] | None = None
    """Save after so many steps."""
    every_seconds: Annotated[int, Field(ge=1)] | None = None
    """Save after so many seconds."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Number of newest checkpoints to keep."""
    restore: Text = "Latest"
    """`Latest`, `None`, or the path of a checkpoint."""


class EvaluationSpec(ApiModel):
    """Evaluation on all workers once training has succeeded, from the last checkpoint."""

    mode: Literal["None", "AfterTraining"] = "None"
    """When to evaluate."""
    replicas: Annotated[int, Field(ge=1, le=10000)] | None = None
    """Size of the evaluation gang; without it as many as there are workers and chief."""
    metric: Name = "accuracy"
    """The metric shown in `kubectl get`."""
    on_failure: Literal["Warn", "FailJob"] = "Warn"
    """Whether an evaluation that fails makes the job fail."""


class RunPolicy(ApiModel):
    """Limits and clean-up."""

    backoff_limit: Annotated[int, Field(ge=0, le=1000)] = 3
    """Restarts that count before the job fails."""
    start_deadline_seconds: Annotated[int, Field(ge=1)] | None = None
    """Fail when the gang has not all started within it; an image that cannot be pulled fails after 300 s."""
    clean_pod_policy: Literal["Running", "All", "None"] = "Running"
    """Which pods are deleted after the end."""


_ONE_DEVICE = rule(
    "self.strategy != 'OneDevice' || (!has(self.chief) && self.worker.replicas == 1)",
    "strategy OneDevice runs one replica: set worker.replicas to 1 and remove chief",
    ".worker.replicas",
)
_WORK = rule(
    "has(self.training) || has(self.command) || has(self.args) || has(self.worker.command) || has(self.image)",
    "nothing to run: set training.program for the bundled trainer, or image and command",
    ".training",
)
_EVALUATION_READS_CHECKPOINTS = rule(
    "!has(self.evaluation) || self.evaluation.mode == 'None' || has(self.checkpoint)",
    "evaluation restores a checkpoint: set checkpoint.directory",
    ".evaluation.mode",
)
_IMMUTABLE = [
    rule(
        f"self.{name} == oldSelf.{name}",
        f"{name} cannot change; delete the job and create it anew",
        f".{name}",
    )
    for name in ("strategy",)
]


class TFDistJobSpec(PodFields):
    """What to run, on how many replicas, and what to do when something fails."""

    model_config = {"json_schema_extra": rules(_ONE_DEVICE, _WORK, _EVALUATION_READS_CHECKPOINTS, *_IMMUTABLE)}

    strategy: Strategy = Strategy.MULTI_WORKER_MIRRORED
    """How TensorFlow distributes the work."""
    chief: ChiefSpec | None = None
    """The chief; without it worker 0 leads."""
    worker: RoleSpec = RoleSpec()
    """The workers."""
    training: TrainingSpec | None = None
    """What the bundled trainer runs."""
    checkpoint: CheckpointSpec | None = None
    """Checkpoints."""
    evaluation: EvaluationSpec | None = None
    """Evaluation."""
    run_policy: RunPolicy = RunPolicy()
    """Limits and clean-up."""


class ObjectMeta(ApiModel):
    """The part of the metadata that checks and rendering need."""

    model_config = {"extra": "ignore"}

    name: Annotated[str, StringConstraints(max_length=MAX_NAME_LENGTH, pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$")]
    namespace: str = "default"
    uid: str = ""


class TFDistJob(ApiModel):
    """Distributed TensorFlow: chief and workers with generated TF_CONFIG behind a headless Service."""

    model_config = {"extra": "ignore"}

    metadata: ObjectMeta
    spec: TFDistJobSpec
