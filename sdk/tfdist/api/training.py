"""Training: program or script, its source, checkpoints, evaluation, TensorBoard, runtime settings of TensorFlow."""

from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from tfdist.api import patterns
from tfdist.api.base import SET, ApiModel, CrossFieldRule, OpenObject
from tfdist.api.export import ExportSpec
from tfdist.api.pod_fields import ResourceRequirements
from tfdist.api.scalars import (
    Boolean,
    Count,
    Directory,
    Image,
    Name,
    Natural,
    Path,
    Replicas,
    Seconds,
    Text,
    distinct,
)
from tfdist.api.source import Folder, SourceSpec

PLACEHOLDERS: Final = ("name", "namespace", "uid")
"""Placeholders of a directory, in braces: fields of the job's metadata."""

SCRIPT_SUFFIX: Final = ".py"
"""End of a `training.script` that is a file; any other is a module."""


class TrainingSpec(ApiModel):
    """What the replicas run: a program of the bundled trainer, or a script of your own."""

    cross_field_rules = (
        CrossFieldRule(
            "has(self.program) != has(self.script)",
            "exactly one of program and script is required; set program for the bundled trainer, or script for a "
            "script of your own",
            "",
            lambda self: (self.program is None) != (self.script is None),
        ),
        CrossFieldRule(
            "!has(self.args) || has(self.script)",
            "args requires script; set the options of a program in config, or remove args",
            ".args",
            lambda self: self.args is None or self.script is not None,
        ),
        CrossFieldRule(
            "!has(self.config) || has(self.program)",
            "config requires program; set the options of a script in args, or remove config",
            ".config",
            lambda self: self.config is None or self.program is not None,
        ),
        CrossFieldRule(
            "!has(self.script) || has(self.source) || self.script.startsWith('/') || "
            f"!self.script.endsWith('{SCRIPT_SUFFIX}')",
            "a relative path requires source; set source, or the absolute path of the file in the image",
            ".script",
            lambda self: (
                self.script is None
                or self.source is not None
                or self.script.startswith("/")
                or not self.script.endswith(SCRIPT_SUFFIX)
            ),
        ),
        CrossFieldRule(
            "!has(self.requirements) || has(self.source)",
            "requirements requires source, where the file is; set source, or remove requirements",
            ".requirements",
            lambda self: self.requirements is None or self.source is not None,
        ),
    )

    program: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=patterns.PROGRAM)] | None = None
    """Name of a built-in program, such as `image_classification`, or a class `package.module:Class`. Cannot be used if
    `script` is set."""
    script: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.SCRIPT)] | None = None
    """Python script that every replica runs, such as a Keras script with `MultiWorkerMirroredStrategy`: a file that
    ends with `.py`, relative to the directory of `source` or absolute in the image, or a module such as
    `package.train`. It runs under the launcher, or with the `python` of `image` if that is set. Cannot be used if
    `program`, `command` or `args` of the container is set."""
    args: Annotated[list[Text] | None, Field(max_length=256)] = None
    """Arguments of the script. Requires `script`. Defaults to none."""
    source: SourceSpec | None = None
    """Source of the code of a class or script, added to `PYTHONPATH`; also the working directory of a script. Defaults
    to the code in the image."""
    requirements: Folder | None = None
    """File of pip with the packages to install before the program or script starts, relative to the directory of
    `source`, such as `requirements.txt`. Each requirement has its version and hashes (`--hash`), and is installed
    from a wheel without its dependencies. The packages are on `PYTHONPATH` behind the code. Requires `source`. Defaults
    to the packages in the image. `tfdist submit --requirements FILE` makes the file."""
    config: OpenObject | None = None
    """Configuration of the program, such as `epochs`; the program validates it when it starts. docs/trainer.md lists
    the fields of the built-in programs. Requires `program`."""
    export: ExportSpec | None = None
    """Models to write at the end of training, for serving. Requires `checkpoint`. Defaults to none."""


class CheckpointSpec(ApiModel):
    """Location, interval and restoring of checkpoints."""

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.volume) || self.directory.startsWith('/')",
            "volume requires directory to be an absolute path; change directory, or remove volume",
            ".directory",
            lambda self: self.volume is None or self.directory.startswith("/"),
        ),
    )

    directory: Directory
    """Absolute path on storage shared by all pods, or a URL of an object store, such as `s3://bucket/{name}` or
    `gs://bucket/{name}`. `{name}`, `{namespace}` and `{uid}` are replaced by the metadata of the job. A new job of the
    same name continues from the checkpoints of the last one, unless the directory contains `{uid}`."""
    volume: OpenObject | None = None
    """Volume for the checkpoints, a volume source as in a pod: `persistentVolumeClaim: {claimName: ckpt}`. It is
    mounted in every role at `directory`, or at the part before its first placeholder, and requires `directory` to be a
    path. Defaults to the volume that `volumeMounts` mounts there."""
    every_steps: Count | None = None
    """Number of steps between checkpoints. If neither this nor `everySeconds` is set, the bundled trainer saves at the
    end of each epoch."""
    every_seconds: Seconds | None = None
    """Seconds between checkpoints. If `everySteps` is set too, whichever comes first applies. The end of training is
    always saved."""
    keep: Annotated[Count, Field(le=1000)] = 3
    """Number of checkpoints to keep; older ones are deleted."""
    restore: Path = "Latest"
    """Checkpoint from which training starts, or that task `Evaluate` evaluates. `Latest`: the newest complete
    checkpoint in `directory`, if any; `None`: no checkpoint; otherwise the path of a checkpoint, absolute or relative
    to `directory`, or its URL."""


class EvaluationMode(StrEnum):
    """When a job evaluates."""

    NONE = "None"
    CONTINUOUS = "Continuous"
    AFTER_TRAINING = "AfterTraining"
    BOTH = "Both"

    @property
    def during_training(self) -> bool:
        """Whether the evaluator scores checkpoints during training."""
        return self in {EvaluationMode.CONTINUOUS, EvaluationMode.BOTH}

    @property
    def after_training(self) -> bool:
        """Whether an evaluation gang evaluates the last checkpoint."""
        return self in {EvaluationMode.AFTER_TRAINING, EvaluationMode.BOTH}


class EarlyStopping(ApiModel):
    """Ends training early when the metric of new checkpoints no longer improves."""

    patience: Annotated[Count, Field(le=1000)]
    """Number of consecutive checkpoints without an improvement after which training ends."""
    min_delta: Annotated[float, Field(ge=0, le=1e9, strict=True)] = 0.0
    """Smallest change of `metric` that counts as an improvement."""


class EnsembleMember(ApiModel):
    """A trained model whose predictions are averaged with the other members' predictions."""

    checkpoint: Path
    """Path of its checkpoint, absolute or relative to `checkpoint.directory`, or its URL."""
    config: OpenObject | None = None
    """Fields of `training.config` that have other values for this model, such as its number of units. Defaults to
    none."""


EVALUATOR_DEADLINE_SECONDS: Final = 600
"""Default of `evaluation.deadlineSeconds` for the evaluator."""


class EvaluationSpec(ApiModel):
    """Evaluation of checkpoints: during training by the evaluator, or after training on all workers."""

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.replicas) || self.mode == 'AfterTraining' || self.mode == 'Both'",
            "replicas requires mode AfterTraining or Both; change mode, or remove replicas",
            ".replicas",
            lambda self: self.replicas is None or self.mode.after_training,
        ),
        CrossFieldRule(
            "!has(self.earlyStopping) || self.mode == 'Continuous' || self.mode == 'Both'",
            "earlyStopping requires mode Continuous or Both; change mode, or remove earlyStopping",
            ".earlyStopping",
            lambda self: self.early_stopping is None or self.mode.during_training,
        ),
    )

    mode: EvaluationMode = EvaluationMode.NONE
    """When to evaluate. `None`: never; `Continuous`: the evaluator scores each new checkpoint during training;
    `AfterTraining`: a gang evaluates the last checkpoint; `Both`: both."""
    replicas: Replicas | None = None
    """Number of replicas of the evaluation after training. Defaults to the number of workers and chief. Requires mode
    `AfterTraining` or `Both`."""
    metric: Name = "accuracy"
    """Metric that selects the best checkpoint, and that `kubectl get` shows. The program must compute it."""
    goal: Literal["Maximize", "Minimize"] = "Maximize"
    """Whether a larger `metric` is better (`Maximize`, as of accuracy) or a smaller one (`Minimize`, as of loss)."""
    ensemble: Annotated[list[EnsembleMember] | None, Field(min_length=1, max_length=64)] = None
    """Trained models to evaluate as one, by the mean of their predictions, or of their probabilities for a
    classification. Requires task `Evaluate` and `training.program`, and is evaluated instead of `checkpoint.restore`;
    the result is stored in `checkpoint.directory`. Defaults to none."""
    early_stopping: EarlyStopping | None = None
    """Ends training early when `metric` no longer improves. Requires mode `Continuous` or `Both`. Defaults to training
    for all steps."""
    deadline_seconds: Seconds | None = None
    """Seconds after the end of training within which the last checkpoint must be evaluated. Defaults to 600 for the
    evaluator and to no deadline for the evaluation after training, whose duration depends on the data."""
    on_failure: Literal["Warn", "FailJob"] = "Warn"
    """What a failed or late evaluation does. `Warn`: it sets the condition `Evaluated` to False; `FailJob`: it fails
    the job, as `Warn` does if the evaluator was to export the best model (`training.export`)."""


class TensorBoardSpec(ApiModel):
    """A TensorBoard for the logs of the job: a Deployment and a Service that the job owns."""

    log_directory: Directory | None = None
    """Path or URL of the logs. Defaults to `checkpoint.directory`, to which the bundled trainer writes its logs."""
    image: Image | None = None
    """Image that contains TensorBoard. Defaults to the trainer image of the installation."""
    resources: ResourceRequirements | None = None
    """Compute resources of the container. Defaults to requests of 100m CPU and 256Mi memory, and a limit of 2Gi
    memory."""
    ttl_seconds_after_finished: Natural = 3600
    """Seconds after the end of the job at which TensorBoard is deleted."""


class NetworkSpec(ApiModel):
    """Network of NCCL, as environment variables of the container `tensorflow`; its own `env` overrides them."""

    interfaces: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=15, pattern=patterns.INTERFACE)]] | None,
        Field(min_length=1, max_length=16, json_schema_extra=SET),
        distinct(),
    ] = None
    """Names of the network interfaces for NCCL's sockets, such as `eth0` (`NCCL_SOCKET_IFNAME`). Defaults to NCCL's
    choice. TensorFlow's gRPC uses the addresses of the pods."""
    debug: Boolean = False
    """Log how NCCL connects the GPUs: versions, interfaces, transports and rings (`NCCL_DEBUG=INFO`)."""


class RuntimeSpec(ApiModel):
    """Runtime settings of TensorFlow. The bundled trainer applies them; other programs read them from `TFDIST_JOB`."""

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.gpuMemoryFraction) || !has(self.gpuMemoryLimitMiB)",
            "gpuMemoryFraction and gpuMemoryLimitMiB are mutually exclusive; keep one of them",
            ".gpuMemoryFraction",
            lambda self: self.gpu_memory_fraction is None or self.gpu_memory_limit_mib is None,
        ),
    )

    gpu_memory_growth: Boolean = True
    """Allocate GPU memory as needed instead of all at once. Ignored if `gpuMemoryLimitMiB` is set."""
    gpu_memory_limit_mib: Annotated[Count | None, Field(alias="gpuMemoryLimitMiB")] = None
    """Limit of the memory to allocate on each GPU, in MiB. Defaults to no limit."""
    gpu_memory_fraction: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    """Limit of the memory to allocate on each GPU, as a fraction of its total memory. Cannot be used with
    `gpuMemoryLimitMiB`. Defaults to no limit."""
    visible_devices: Annotated[
        list[Annotated[Natural, Field(le=1023)]] | None, Field(max_length=64, json_schema_extra=SET), distinct()
    ] = None
    """Indices of the container's GPUs to use, from 0. Defaults to all GPUs."""
    intra_op_threads: Annotated[Count, Field(le=4096)] | None = None
    """Number of threads within one operation. Defaults to TensorFlow's choice, which follows the cores of the node and
    not the CPU limit."""
    inter_op_threads: Annotated[Count, Field(le=4096)] | None = None
    """Number of operations that run in parallel. Defaults to TensorFlow's choice."""
    log_device_placement: Boolean = False
    """Log the device of each operation, for example to find out why a GPU is idle."""
    mixed_precision: Literal["bfloat16", "float16"] | None = None
    """Data type of computations (`bfloat16` or `float16`); variables stay float32. Defaults to float32 for both."""
    tensor_float32: Boolean = True
    """Round float32 inputs of matrix products and convolutions to 10 bits of precision (TensorFloat-32) on NVIDIA GPUs
    from Ampere on, as TensorFlow does by default. With `false` they keep all 23 bits and are slower: an A100 has an
    eighth of the peak rate there."""
    xla: Literal["Auto", "On", "Off"] = "Auto"
    """Whether XLA compiles training steps: `On`, `Off`, or `Auto`, which measures the first steps both ways and keeps
    the faster."""
    deterministic: Boolean = False
    """Use deterministic operations only: slower, and reproducible with the same `seed`."""
    seed: Natural | None = None
    """Random seed. Defaults to the program's seed."""
    collective: Literal["Auto", "Ring", "NCCL"] = "Auto"
    """Implementation of collective communication: `NCCL` between NVIDIA GPUs, `Ring` over the network, or `Auto` for
    TensorFlow's choice."""
    network: NetworkSpec = NetworkSpec()
    """Network of NCCL. Works with every program, because the controller sets it as environment variables."""
