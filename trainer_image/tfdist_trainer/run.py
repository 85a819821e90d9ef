"""Runs the task of one replica, from its environment to the result.

The configuration and the presence of every file are checked first. Then TensorFlow is imported, and the task runs
(`task`).
"""

import os
from pathlib import Path

from tfdist.api.training import EvaluationMode
from tfdist.contract import Role, Task
from tfdist_trainer import log, programs, runtime, standby
from tfdist_trainer.data.files import Split
from tfdist_trainer.data.object_cache import download
from tfdist_trainer.environment import PARAMETER_SERVER, GangMember
from tfdist_trainer.errors import ConfigurationError, UsageError
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs.config import batch_size, files
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.storage.object_urls import is_url
from tfdist_trainer.strategies import peers


def run(member: GangMember, reporter: Reporter, preemption: PreemptionHandler) -> None:
    """Run the task of `member`; `errors.classify` maps any exception to an exit code and a reason."""
    start_barrier = standby.start_barrier_from(os.environ, member.round)
    if start_barrier is not None and not (member.job.task is Task.TRAIN and not member.cluster):
        raise UsageError(f"{standby.START_BARRIER_ENV}: only a process of a synchronous gang can be a standby process")
    # Before the check of the configuration, because importing a user's class imports TensorFlow.
    settings = runtime.read(member.job.runtime)
    if member.cluster:
        # XLA cannot compile steps on variables of servers.
        settings = runtime.for_servers(settings)
    training = member.job.training
    runtime.prepare(os.environ, settings, training.config if training else None)
    choice = check_member(member)
    # TensorFlow would wait too, and fail after minutes without naming the member.
    peers.wait_until_resolved(member.addresses, lambda text: log.event("waiting", message=text))
    # Imported here: TensorFlow takes seconds to import, and a wrong configuration is reported without it.
    if member.is_server:
        if member.job.role is Role.WORKER:
            # It runs graphs of the coordinator, which read the copies of objects by their paths.
            download(files(choice.config, Split.TRAIN))
        from tfdist_trainer.strategies import servers  # noqa: PLC0415

        servers.serve(member, settings, reporter)
        return
    from tfdist_trainer import task  # noqa: PLC0415

    task.run(member, choice, settings, start_barrier, reporter, preemption)


def check_member(member: GangMember) -> programs.Choice:
    """Return the program and its configuration after every check that does not need TensorFlow.

    Raises:
        ConfigurationError: a field is wrong; the message starts with its path.
        DataMissingError: a file or pattern has no match.
    """
    job = member.job
    if job.training is None:
        raise ConfigurationError("training: is absent; name a program in training.program")
    choice = programs.choose(job.training.program, job.training.config)
    config = choice.config
    batch_size(config, member.size)
    if config.min_shard_bytes is not None and job.strategy != PARAMETER_SERVER:
        raise ConfigurationError(
            "training.config.minShardBytes: only strategy ParameterServer divides variables; remove it"
        )
    files(config, Split.EVAL if job.task is Task.EVALUATE else Split.TRAIN)
    # Found before training, and not after days of it.
    if _evaluates_later(member):
        files(config, Split.EVAL)
    directory = job.checkpoint.directory if job.checkpoint is not None else "/"
    if not is_url(directory) and not Path(directory).is_absolute():
        raise ConfigurationError(
            f"checkpoint.directory: {directory!r} is neither an absolute path nor s3://bucket/key or gs://bucket/key"
        )
    if job.checkpoint is None and job.task is Task.EVALUATE:
        raise ConfigurationError("checkpoint: is absent; an evaluation needs checkpoint.directory")
    return choice


def _evaluates_later(member: GangMember) -> bool:
    """Return whether this is a worker whose pod template also serves the evaluation after training.

    It sees the same volumes, so absent evaluation data is found before training. The evaluator checks its own.
    """
    job = member.job
    mode = EvaluationMode((job.evaluation or {}).get("mode", EvaluationMode.NONE))
    return job.task is Task.TRAIN and job.role is Role.WORKER and mode.after_training
