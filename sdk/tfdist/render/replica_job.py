"""The content of `TFDIST_JOB`: the settings of the job for one replica."""

from tfdist.api.training import PLACEHOLDERS, CheckpointSpec, TrainingSpec
from tfdist.api.v1 import TFDistJob
from tfdist.contract import CheckpointSettings, ExportSettings, LaunchSettings, ReplicaJob, Task, Training
from tfdist.render.gang import Gang, Member


def replica_job(
    job: TFDistJob,
    gang: Gang,
    member: Member,
    attempt: int,
    addresses: dict[str, list[str]],
    launch: LaunchSettings | None = None,
    grace_seconds: int | None = None,
    gpus: int = 0,
    cluster: str | None = None,
) -> ReplicaJob:
    """Return the `TFDIST_JOB` of one member of a gang.

    Args:
        job: the job.
        gang: the gang.
        member: the replica.
        attempt: number of the attempt.
        addresses: addresses of the gang, if `TF_CONFIG` does not have them.
        launch: settings of its launcher, if the gang uses launchers.
        grace_seconds: `terminationGracePeriodSeconds` of its pod, if it is set.
        gpus: number of NVIDIA GPUs in the limits of its container.
        cluster: identifies the cluster, as `Installation.cluster`.
    """
    spec, meta = job.spec, job.metadata
    logs = spec.tensor_board.log_directory if spec.tensor_board else None
    evaluation = spec.evaluation.model_dump(mode="json", by_alias=True, exclude_none=True) if spec.evaluation else None
    return ReplicaJob(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        cluster=cluster,
        strategy=spec.strategy,
        task=gang.task,
        role=member.role,
        index=member.index,
        attempt=attempt,
        replicas=gang.sizes(),
        addresses=addresses,
        training=_training(spec.training),
        checkpoint=_checkpoint(job, gang, spec.checkpoint) if spec.checkpoint else None,
        export=_export(job, spec.training),
        evaluation=evaluation,
        runtime=spec.runtime.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, exclude={"network"}
        ),
        launch=launch,
        termination_grace_period_seconds=grace_seconds,
        gpus=gpus or None,
        log_directory=expand_placeholders(job, logs) if logs else None,
    )


def expand_placeholders(job: TFDistJob, directory: str) -> str:
    """Return a directory with `{name}`, `{namespace}` and `{uid}` replaced by the metadata of the job."""
    for name in PLACEHOLDERS:
        directory = directory.replace(f"{{{name}}}", getattr(job.metadata, name))
    return directory


def _training(spec: TrainingSpec | None) -> Training | None:
    """Return the program and its configuration; None for a script, whose settings are in its command."""
    if spec is None or spec.program is None:
        return None
    return Training(program=spec.program, config=spec.config or {})


def export_directory(job: TFDistJob) -> str | None:
    """Return the directory of exported models, with its placeholders expanded; None if the job exports none."""
    spec, checkpoint = job.spec.training.export if job.spec.training else None, job.spec.checkpoint
    if spec is None:
        return None
    default = f"{checkpoint.directory.rstrip('/')}/export" if checkpoint else ""
    return expand_placeholders(job, (spec.directory or default).rstrip("/"))


def _export(job: TFDistJob, spec: TrainingSpec | None) -> ExportSettings | None:
    export, directory = spec.export if spec else None, export_directory(job)
    if export is None or directory is None:
        return None
    formats, models = ([str(item) for item in values] for values in (export.formats, export.which))
    return ExportSettings(directory=directory, formats=formats, which=models)


def _checkpoint(job: TFDistJob, gang: Gang, spec: CheckpointSpec) -> CheckpointSettings:
    """Return the checkpoint settings; an evaluation after training always restores the latest checkpoint."""
    is_after_training = gang.task is Task.EVALUATE and job.spec.task is Task.TRAIN
    return CheckpointSettings(
        directory=expand_placeholders(job, spec.directory),
        every_steps=spec.every_steps,
        every_seconds=spec.every_seconds,
        keep=spec.keep,
        restore="Latest" if is_after_training else spec.restore,
    )
