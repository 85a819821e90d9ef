"""One task of one replica, from what it was told to its result.

Everything that can be wrong in the configuration, and every file that can be missing, is looked at first;
then TensorFlow is imported, the gang is joined, and the task runs.
"""

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tfdist.api.training import RuntimeSpec
from tfdist.contract import Phase, Role, Task
from tfdist_trainer import log, programs, runtime, standby
from tfdist_trainer.data.files import Split
from tfdist_trainer.environment import PARAMETER_SERVER, Member
from tfdist_trainer.errors import ConfigurationError, PeerLostError, UsageError
from tfdist_trainer.notice import Notice
from tfdist_trainer.programs.config import batch_size, files
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.strategies import meeting, names

if TYPE_CHECKING:
    from tfdist_trainer.strategies.gang import Gang


def run(member: Member, reporter: Reporter, notice: Notice) -> None:
    """Do the task of `member`; any exception is a failure that `errors.classify` explains."""
    gate = standby.gate_from(os.environ, member.round)
    if gate is not None and not (member.job.task is Task.TRAIN and not member.cluster):
        raise UsageError(f"{standby.GATE_ENV}: only a program that trains in step with its gang can wait in reserve")
    # Before the check, because the class of a user's program imports TensorFlow.
    settings = runtime.read(member.job.runtime)
    if member.cluster:
        settings = runtime.for_servers(settings)
    training = member.job.training
    legacy_keras = training is not None and runtime.needs_legacy_keras(training.config)
    runtime.prepare(os.environ, settings, legacy_keras=legacy_keras)
    choice = check(member)
    names.wait_for_names(member.addresses, lambda text: log.event("waiting", message=text))
    if member.is_server:
        _serve(member, settings, reporter)
        return
    # TensorFlow takes seconds to import, and a wrong configuration is reported without it.
    from tfdist_trainer.context import Context  # noqa: PLC0415
    from tfdist_trainer.programs.from_files import explained  # noqa: PLC0415
    from tfdist_trainer.programs.learned import prepare  # noqa: PLC0415

    context = Context(
        gang=_join(member, settings, choice.config.min_shard_bytes, reporter, notice),
        program=choice.create(),
        config=choice.config,
        checkpoint=member.job.checkpoint,
        reporter=reporter,
        notice=notice,
        settings=settings,
        gate=gate,
    )
    if member.job.role is Role.EVALUATOR:
        from tfdist_trainer.evaluator import await_checkpoint  # noqa: PLC0415

        await_checkpoint(context)  # what `prepare` reads is written before it
    prepare(context)
    with explained(context.program):
        if member.job.role is Role.EVALUATOR:
            from tfdist_trainer.evaluator import follow  # noqa: PLC0415

            follow(context)
        elif member.job.task is Task.EVALUATE:
            from tfdist_trainer.evaluate import evaluate  # noqa: PLC0415

            evaluate(context)
        elif member.cluster:
            from tfdist_trainer.strategies import parameter_server  # noqa: PLC0415

            parameter_server.train(context)
        else:
            from tfdist_trainer.loop import train  # noqa: PLC0415

            train(context)
    if member.size > 1 and not member.cluster:
        time.sleep(_LINGER_SECONDS)


_LINGER_SECONDS: Final = 1.0
"""How long a member stays after its last collective: another may still fetch from it what it needs to end its own,
and would take the closed connection for a lost peer."""


def _join(
    member: Member, settings: RuntimeSpec, min_shard_bytes: int | None, reporter: Reporter, notice: Notice
) -> "Gang":
    """Return the gang of `member` when all its members have come.

    Raises:
        PeerLostError: one has not.
    """
    from tfdist_trainer.strategies import build  # noqa: PLC0415

    reporter.update(phase=Phase.RENDEZVOUS)
    limit: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if member.size > 1:
        meeting.meet(member, lambda missing: _say_waiting(reporter, missing))
        seconds = build.CONNECT_SECONDS
        limit = notice.limit(seconds, PeerLostError(f"a member was lost while all connected: waited {seconds:.0f} s"))
    log.event("joining", rank=member.rank, members=member.size)
    with limit:
        gang = build.join(member, settings, min_shard_bytes)
    log.event("joined", replicas=gang.replicas)
    return gang


def _say_waiting(reporter: Reporter, missing: Sequence[str]) -> None:
    """Say for whom this member waits, in its log and its report."""
    reporter.update(waiting_for=list(missing))
    if missing:
        log.event("waiting", message=f"waiting for {', '.join(missing)} to come")


def _serve(member: Member, settings: RuntimeSpec, reporter: Reporter) -> None:
    """Compute, or keep variables, for the chief of an asynchronous gang."""
    from tfdist_trainer.strategies import devices, servers  # noqa: PLC0415

    devices.configure(settings, member.job.role)
    servers.serve(member, reporter)


def check(member: Member) -> programs.Choice:
    """Return the program with its configuration after checking all that can be checked without TensorFlow.

    Raises:
        ConfigurationError: with the path of the field.
        DataMissingError: with the file or pattern.
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
    if job.checkpoint is not None and not Path(job.checkpoint.directory).is_absolute():
        raise ConfigurationError(
            f"checkpoint.directory: {job.checkpoint.directory!r} is not an absolute path of a file system"
        )
    if job.checkpoint is None and job.task is Task.EVALUATE:
        raise ConfigurationError("checkpoint: is absent; an evaluation needs checkpoint.directory")
    return choice
