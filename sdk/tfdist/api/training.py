"""What runs: the program and its source, checkpoints, evaluation, TensorBoard, TensorFlow's settings."""

from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from tfdist.api import patterns
from tfdist.api.base import OPEN_OBJECT, SET, ApiModel, Check
from tfdist.api.pod_fields import Resources
from tfdist.api.scalars import Boolean, Count, DnsName, Image, Name, Natural, Path, Replicas, Seconds, distinct

PLACEHOLDERS: Final = ("name", "namespace", "uid")
"""What may stand in braces in a directory."""

Directory = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.DIRECTORY)]
"""An absolute path in the pods or a URL that TensorFlow can open."""

Folder = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.FOLDER)]
"""A path inside a source."""


class ObjectSource(ApiModel):
    """Another object of the job's namespace."""

    name: DnsName
    """Its name."""


class ClaimSource(ApiModel):
    """A folder of a PersistentVolumeClaim."""

    claim_name: DnsName
    """Name of the claim."""
    directory: Folder | None = None
    """Folder in it that goes on `PYTHONPATH`; without it its root."""


class GitSource(ApiModel):
    """A revision of a Git repository, fetched before the container starts."""

    repository: Annotated[str, StringConstraints(max_length=2048, pattern=patterns.REPOSITORY)]
    """Where it is, such as `https://host/team/code.git`."""
    revision: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=patterns.REVISION)] = "HEAD"
    """Commit, tag or branch; only a full commit makes every attempt run the same code."""
    directory: Folder | None = None
    """Folder in it that goes on `PYTHONPATH`; without it its root."""


class SourceSpec(ApiModel):
    """Where the program's code comes from, when it is not in the image: exactly one of these."""

    checks = (
        Check(
            "[has(self.configMap), has(self.git), has(self.persistentVolumeClaim)].filter(x, x).size() == 1",
            "code comes from one place: set exactly one of configMap, git and persistentVolumeClaim",
            "",
            lambda self: sum(s is not None for s in (self.config_map, self.git, self.persistent_volume_claim)) == 1,
        ),
    )

    config_map: ObjectSource | None = None
    """A ConfigMap of the job's namespace whose keys are files, at most 1 MiB in all."""
    git: GitSource | None = None
    """A Git repository, fetched by an init container without credentials of its own."""
    persistent_volume_claim: ClaimSource | None = None
    """A PersistentVolumeClaim that all pods can read, mounted read-only."""


class TrainingSpec(ApiModel):
    """What the bundled trainer runs."""

    program: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=patterns.PROGRAM)]
    """A built-in program, such as `image_classification`, or a class of your own as `package.module:Class`."""
    source: SourceSpec | None = None
    """Where the code of a class of your own comes from, put on `PYTHONPATH`; without it the class is in the image."""
    config: Annotated[dict[str, Any] | None, Field(json_schema_extra=OPEN_OBJECT)] = None
    """The program's own settings, such as `epochs`: any YAML, which the program checks when it starts. docs/trainer.md
    lists those of the built-in programs."""


class CheckpointSpec(ApiModel):
    """Where and how often the chief saves, and what is restored at a start."""

    checks = (
        Check(
            "!has(self.volume) || self.directory.startsWith('/')",
            "a volume is mounted at a path: write directory as an absolute path, or remove volume",
            ".directory",
            lambda self: self.volume is None or self.directory.startswith("/"),
        ),
    )

    directory: Directory
    """Absolute path in the pods, on storage that all of them share, or a URL that TensorFlow can open, such as
    `gs://bucket/{name}`. `{name}`, `{namespace}` and `{uid}` are replaced by the job's; with `{uid}` a job of the
    same name begins anew, without it that job takes up where the last one ended."""
    volume: Annotated[dict[str, Any] | None, Field(json_schema_extra=OPEN_OBJECT)] = None
    """Volume to save on, as a source of a pod's volume: `persistentVolumeClaim: {claimName: ckpt}`. Mounted in every
    role at `directory`, or at the part of it before its first placeholder. Without it `volumes` and `volumeMounts` have
    to bring one."""
    every_steps: Count | None = None
    """Save every so many steps. With neither this nor `everySeconds` the bundled trainer saves at the end of each
    epoch."""
    every_seconds: Seconds | None = None
    """Save every so many seconds; beside `everySteps` whichever comes first. The end of training is always saved."""
    keep: Annotated[Count, Field(le=1000)] = 3
    """Number of newest checkpoints to keep; older ones are deleted."""
    restore: Path = "Latest"
    """What training begins from, or task `Evaluate` evaluates: `Latest`, the newest complete checkpoint in `directory`,
    if there is one; `None`, nothing; or the path of a checkpoint, relative to `directory` or absolute."""


class EvaluationMode(StrEnum):
    """When a job evaluates."""

    NONE = "None"
    CONTINUOUS = "Continuous"
    AFTER_TRAINING = "AfterTraining"
    BOTH = "Both"

    @property
    def beside_training(self) -> bool:
        """Whether an evaluator scores checkpoints while training goes on."""
        return self in {EvaluationMode.CONTINUOUS, EvaluationMode.BOTH}

    @property
    def after_training(self) -> bool:
        """Whether a gang of its own evaluates the final checkpoint."""
        return self in {EvaluationMode.AFTER_TRAINING, EvaluationMode.BOTH}


class EarlyStopping(ApiModel):
    """When training ends before its last step, because the evaluator finds no checkpoint better any more."""

    patience: Annotated[Count, Field(le=1000)]
    """Number of checkpoints in a row that are no better than the best before them."""
    min_delta: Annotated[float, Field(ge=0, le=1e9, strict=True)] = 0.0
    """By how much `metric` has to be better to count as better."""


class EvaluationSpec(ApiModel):
    """Evaluation of checkpoints: beside training by the evaluator, or after it on all workers."""

    checks = (
        Check(
            "!has(self.replicas) || self.mode == 'AfterTraining' || self.mode == 'Both'",
            "only evaluation after training runs on several replicas: set mode to AfterTraining or Both, "
            "or remove replicas",
            ".replicas",
            lambda self: self.replicas is None or self.mode.after_training,
        ),
        Check(
            "!has(self.earlyStopping) || self.mode == 'Continuous' || self.mode == 'Both'",
            "the evaluator beside training decides when to stop early: set mode to Continuous or Both, "
            "or remove earlyStopping",
            ".earlyStopping",
            lambda self: self.early_stopping is None or self.mode.beside_training,
        ),
    )

    mode: EvaluationMode = EvaluationMode.NONE
    """`None`: not at all; `Continuous`: each new checkpoint while training goes on, by the evaluator; `AfterTraining`:
    the last one, on all workers; `Both`: the one and then the other."""
    replicas: Replicas | None = None
    """Number of replicas that evaluate after training; without it as many as trained (workers and chief)."""
    metric: Name = "accuracy"
    """The metric that `kubectl get` shows, and by which the best checkpoint is chosen; one that the program
    computes."""
    goal: Literal["Maximize", "Minimize"] = "Maximize"
    """Whether more of `metric` is better, as of accuracy, or less, as of loss."""
    early_stopping: EarlyStopping | None = None
    """End training when checkpoints get no better; without it all steps are done."""
    deadline_seconds: Seconds = 600
    """Seconds after the end of training within which the last checkpoint has to be scored."""
    on_failure: Literal["Warn", "FailJob"] = "Warn"
    """What an evaluation that fails or is late does: only the condition `Evaluated` says so (`Warn`), or the job
    fails."""


class TensorBoardSpec(ApiModel):
    """A TensorBoard that shows the job's logs, in a Deployment and Service owned by the job."""

    log_directory: Directory | None = None
    """Where the program writes its logs, as a path or URL; without it below `checkpoint.directory`."""
    image: Image | None = None
    """Image with TensorBoard; without it the controller's own trainer image."""
    resources: Resources | None = None
    """Requests and limits of its container."""
    ttl_seconds_after_finished: Natural = 3600
    """Seconds for which it outlives the end of the job."""


class RuntimeSpec(ApiModel):
    """Settings of TensorFlow, handed to the program."""

    gpu_memory_growth: Boolean = True
    """Take GPU memory as it is needed instead of all at once; without effect where `gpuMemoryLimitMiB` is set."""
    gpu_memory_limit_mib: Annotated[Count | None, Field(alias="gpuMemoryLimitMiB")] = None
    """Most memory to take of each GPU, in MiB; without it no limit."""
    visible_devices: Annotated[
        list[Annotated[Natural, Field(le=1023)]] | None, Field(max_length=64, json_schema_extra=SET), distinct()
    ] = None
    """Numbers of the GPUs to use, from 0, among those of the container; without it all."""
    intra_op_threads: Annotated[Count, Field(le=4096)] | None = None
    """Threads that one operation is spread over; without it TensorFlow chooses by the cores of the node, not by the
    limit."""
    inter_op_threads: Annotated[Count, Field(le=4096)] | None = None
    """Operations that run at the same time; without it TensorFlow chooses."""
    log_device_placement: Boolean = False
    """Log on which device each operation runs: many lines, to find out why a GPU is idle."""
    mixed_precision: Literal["bfloat16", "float16"] | None = None
    """Compute in this type and keep variables in float32: faster on GPUs that have it. Without it all is float32."""
    xla: Literal["Auto", "On", "Off"] = "Auto"
    """Whether steps are compiled by XLA; `Auto` measures the first steps both ways and keeps the faster."""
    deterministic: Boolean = False
    """Use deterministic operations only: slower, and equal in every run with the same seed."""
    seed: Natural | None = None
    """Seed of all random numbers; without it the program's own."""
    collective: Literal["Auto", "Ring", "NCCL"] = "Auto"
    """How replicas exchange gradients: `NCCL` between GPUs of NVIDIA, `Ring` over the network; `Auto` lets TensorFlow
    choose."""
