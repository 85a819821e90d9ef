"""Joins the gang of a member, and runs its task: to train, to evaluate, or to evaluate while another gang trains."""

import contextlib
import time
from collections.abc import Sequence
from typing import Final

from tfdist.api.training import RuntimeSpec
from tfdist.contract import Phase, Role, Task
from tfdist_trainer import ensemble, evaluate, evaluator, log, loop, parameter_server, preprocessing_state
from tfdist_trainer.context import Context
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import PeerLostError
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs import Choice
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.from_files import explain_data_errors
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.standby import StartBarrier
from tfdist_trainer.strategies import build, rendezvous
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.upstream import versions

_LINGER_SECONDS: Final = 1.0
"""How long a member stays after its last collective: another member may still read from it to finish the same
collective, and would report the closed connection as a lost peer."""


def run(
    member: GangMember,
    choice: Choice,
    settings: RuntimeSpec,
    start_barrier: StartBarrier | None,
    reporter: Reporter,
    preemption: PreemptionHandler,
) -> None:
    """Run the task of `member`, which is not a server, with the chosen program."""
    versions.warn_if_untested()
    context = Context(
        gang=_join(member, settings, choice.config.min_shard_bytes, reporter, preemption),
        program=_program(member, choice),
        config=choice.config,
        checkpoint=member.job.checkpoint,
        reporter=reporter,
        preemption=preemption,
        settings=settings,
        start_barrier=start_barrier,
    )
    if member.job.role is Role.EVALUATOR:
        evaluator.wait_for_checkpoint(context)  # the file that `prepare` reads is written before the first checkpoint
    # Before the model, which needs vocabularies and scales.
    preprocessing_state.prepare(context)
    with explain_data_errors(context.program):
        if member.job.task is Task.TRAIN:
            evaluator.check_metric(context)
        if member.job.role is Role.EVALUATOR:
            evaluator.evaluate_continuously(context)
        elif member.job.task is Task.EVALUATE:
            evaluate.evaluate(context)
        elif member.cluster:
            parameter_server.train(context)
        else:
            loop.train(context)
    # Servers of an asynchronous gang are shut down by the chief.
    if member.size > 1 and not member.cluster:
        time.sleep(_LINGER_SECONDS)


def _program(member: GangMember, choice: Choice) -> Program:
    """Return the program of a job, or of the ensemble that it evaluates."""
    entries = ensemble.members(member.job)
    return ensemble.create(member.job, entries) if entries else choice.create()


def _join(
    member: GangMember,
    settings: RuntimeSpec,
    min_shard_bytes: int | None,
    reporter: Reporter,
    preemption: PreemptionHandler,
) -> ReplicaGroup:
    """Return the gang of `member` once all its members are connected.

    Raises:
        PeerLostError: a member did not connect.
    """
    reporter.update(phase=Phase.RENDEZVOUS)
    limit: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    # In Python first: TensorFlow's own wait neither names who is missing nor handles SIGTERM (ADR 11).
    if member.size > 1:
        rendezvous.wait_for_members(member, lambda missing: _report_waiting(reporter, missing))
        seconds = build.CONNECT_SECONDS
        error = PeerLostError(f"a member was lost while all connected: waited {seconds:.0f} s")
        limit = preemption.limit(seconds, error)
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
