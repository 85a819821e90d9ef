"""What `TFDIST_JOB` tells a replica: the job as the trainer sees it."""

from tfdist.api.training import PLACEHOLDERS, CheckpointSpec
from tfdist.api.v1 import TFDistJob
from tfdist.contract import CheckpointSettings, LaunchSettings, ReplicaJob, Task, Training
from tfdist.render.gang import Gang, Member


def replica_job(
    job: TFDistJob,
    gang: Gang,
    member: Member,
    attempt: int,
    addresses: dict[str, list[str]],
    launch: LaunchSettings | None = None,
) -> ReplicaJob:
    """Return what one member of a gang is told in an attempt.

    Args:
        job: the job.
        gang: the gang.
        member: who is told.
        attempt: the start of the gang.
        addresses: those of the gang, where `TF_CONFIG` does not say them.
        launch: what the launcher is told, where the gang has them.
    """
    spec, meta = job.spec, job.metadata
    logs = spec.tensor_board.log_directory if spec.tensor_board else None
    evaluation = spec.evaluation.model_dump(mode="json", by_alias=True, exclude_none=True) if spec.evaluation else None
    return ReplicaJob(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        strategy=spec.strategy,
        task=gang.task,
        role=member.role,
        index=member.index,
        attempt=attempt,
        replicas=gang.sizes(),
        addresses=addresses,
        training=Training(program=spec.training.program, config=spec.training.config or {}) if spec.training else None,
        checkpoint=_checkpoint(job, gang, spec.checkpoint) if spec.checkpoint else None,
        evaluation=evaluation,
        runtime=spec.runtime.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True),
        launch=launch,
        log_directory=filled_in(job, logs) if logs else None,
    )


def filled_in(job: TFDistJob, directory: str) -> str:
    """Return a directory with its placeholders replaced by what the job is called."""
    for name in PLACEHOLDERS:
        directory = directory.replace(f"{{{name}}}", getattr(job.metadata, name))
    return directory


def _checkpoint(job: TFDistJob, gang: Gang, spec: CheckpointSpec) -> CheckpointSettings:
    """Return where checkpoints are; what training began from is no business of those who evaluate what it has made."""
    after = gang.task is Task.EVALUATE and job.spec.task is Task.TRAIN
    return CheckpointSettings(
        directory=filled_in(job, spec.directory),
        every_steps=spec.every_steps,
        every_seconds=spec.every_seconds,
        keep=spec.keep,
        restore="Latest" if after else spec.restore,
    )
