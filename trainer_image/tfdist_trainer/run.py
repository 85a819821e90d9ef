"""Runs the task of one replica, from its environment to the result.

The configuration and the presence of every file are checked first. Then TensorFlow is imported, the gang is joined,
and the task runs.
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
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs.config import batch_size, files
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.strategies import peers, rendezvous

if TYPE_CHECKING:
    from tfdist_trainer.strategies.replica_group import ReplicaGroup


def run(member: Member, reporter: Reporter, preemption: PreemptionHandler) -> None:
    """Run the task of `member`; `errors.classify` maps any exception to an exit code and a reason."""
    start_barrier = standby.start_barrier_from(os.environ, member.round)
    if start_barrier is not None and not (member.job.task is Task.TRAIN and not member.cluster):
        raise UsageError(f"{standby.START_BARRIER_ENV}: only a process of a synchronous gang can be a standby process")
    # Before the check of the configuration, because importing a user's class imports TensorFlow.
    settings = runtime.read(member.job.runtime)
    if member.cluster:
        settings = runtime.for_servers(settings)
    training = member.job.training
    legacy_keras = training is not None and runtime.needs_legacy_keras(training.config)
    runtime.prepare(os.environ, settings, legacy_keras=legacy_keras)
    choice = check(member)
    peers.wait_until_resolved(member.addresses, lambda text: log.event("waiting", message=text))
    if member.is_server:
        _serve(member, settings, reporter)
        return
    # Imported here: TensorFlow takes seconds to import, and a wrong configuration is reported without it.
    from tfdist_trainer.context import Context  # noqa: PLC0415
    from tfdist_trainer.programs.from_files import explained  # noqa: PLC0415
    from tfdist_trainer.programs.preprocessing import prepare  # noqa: PLC0415

    context = Context(
        gang=_join(member, settings, choice.config.min_shard_bytes, reporter, preemption),
        program=choice.create(),
        config=choice.config,
        checkpoint=member.job.checkpoint,
        reporter=reporter,
        preemption=preemption,
        settings=settings,
        start_barrier=start_barrier,
    )
    if member.job.role is Role.EVALUATOR:
        from tfdist_trainer.evaluator import wait_for_checkpoint  # noqa: PLC0415

        wait_for_checkpoint(context)  # the file that `prepare` reads is written before the first checkpoint
    prepare(context)
    with explained(context.program):
        if member.job.role is Role.EVALUATOR:
            from tfdist_trainer.evaluator import evaluate_continuously  # noqa: PLC0415

            evaluate_continuously(context)
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
"""How long a member stays after its last collective: another member may still read from it to finish the same
collective, and would take the closed connection for a lost peer."""


def _join(
    member: Member,
    settings: RuntimeSpec,
    min_shard_bytes: int | None,
    reporter: Reporter,
    preemption: PreemptionHandler,
) -> "ReplicaGroup":
    """Return the gang of `member` once all its members are connected.

    Raises:
        PeerLostError: a member did not connect.
    """
    from tfdist_trainer.strategies import build  # noqa: PLC0415

    reporter.update(phase=Phase.RENDEZVOUS)
    limit: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if member.size > 1:
        rendezvous.wait_for_members(member, lambda missing: _report_waiting(reporter, missing))
        seconds = build.CONNECT_SECONDS
        lost = PeerLostError(f"a member was lost while all connected: waited {seconds:.0f} s")
        limit = preemption.limit(seconds, lost)
    log.event("joining", rank=member.rank, members=member.size)
    with limit:
        gang = build.join(member, settings, min_shard_bytes)
    log.event("joined", replicas=gang.replicas)
    return gang


def _report_waiting(reporter: Reporter, missing: Sequence[str]) -> None:
    """Report the members that this one waits for, in the log and in the progress report."""
    reporter.update(waiting_for=list(missing))
    if missing:
        log.event("waiting", message=f"waiting for {', '.join(missing)} to connect")


def _serve(member: Member, settings: RuntimeSpec, reporter: Reporter) -> None:
    """Run TensorFlow's server of a worker or parameter server, which the chief of an asynchronous gang drives."""
    from tfdist_trainer.strategies import devices, servers  # noqa: PLC0415

    devices.configure(settings, member.job.role)
    servers.serve(member, reporter)


def check(member: Member) -> programs.Choice:
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
    if job.checkpoint is not None and not Path(job.checkpoint.directory).is_absolute():
        raise ConfigurationError(
            f"checkpoint.directory: {job.checkpoint.directory!r} is not an absolute path of a file system"
        )
    if job.checkpoint is None and job.task is Task.EVALUATE:
        raise ConfigurationError("checkpoint: is absent; an evaluation needs checkpoint.directory")
    return choice
