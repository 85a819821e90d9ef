"""The context of a task: the member, its gang, its program, and the reporter."""

from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from tfdist.api.training import RuntimeSpec
from tfdist.contract import CheckpointSettings
from tfdist.programs.config import ProgramConfig
from tfdist_trainer.data.files import Shard
from tfdist_trainer.data.pipeline import EpochRange, ExampleSource, steps_needed, stream
from tfdist_trainer.data.source import FileSource
from tfdist_trainer.environment import Member
from tfdist_trainer.errors import DataMalformedError, DataMissingError
from tfdist_trainer.fence import Writer, writer_of
from tfdist_trainer.preemption import PreemptionHandler
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.config import batch_size, rate_scale
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.standby import StartBarrier
from tfdist_trainer.strategies.replica_group import ReplicaGroup

_KEPT: Final[list[object]] = []
"""References to all iterators, so that none is destroyed: that waits for its pipeline, measured 1 to 40 s on a busy
machine, while the other members wait in a collective. A task creates only one."""


@dataclass(frozen=True, slots=True)
class Context:
    """The objects and settings that a task runs with."""

    gang: ReplicaGroup
    program: Program
    config: ProgramConfig
    checkpoint: CheckpointSettings | None
    reporter: Reporter
    preemption: PreemptionHandler
    settings: RuntimeSpec
    start_barrier: StartBarrier | None = None
    """Of a standby process: where it waits before it restores a checkpoint."""

    @property
    def seed(self) -> int:
        """Seed of all random numbers: `runtime.seed`, or the program's own."""
        return self.config.seed if self.settings.seed is None else self.settings.seed

    @property
    def member(self) -> Member:
        """This replica."""
        return self.gang.member

    @property
    def shard(self) -> Shard:
        """The shard that this member's input pipeline reads."""
        return Shard(index=self.member.rank, count=self.member.size)

    @property
    def scale(self) -> float:
        """Factor of the learning rate for the global batch size; see `Program.optimizer`."""
        replicas = self.gang.replicas
        return rate_scale(self.config, batch_size(self.config, replicas) * replicas)

    @property
    def writer(self) -> Writer:
        """This replica as the writer of a checkpoint."""
        return writer_of(self.member)


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """The examples of one split on this member, and the number of examples of every member."""

    gang: ReplicaGroup
    examples: ExampleSource
    batch_size: int
    counts: tuple[int, ...]
    """Number of examples of every member, in order of rank."""

    @property
    def steps(self) -> int:
        """Steps in an epoch: after so many every member has used all its examples."""
        return steps_needed(self.counts, self.batch_size, self.gang.replicas_per_member)

    def iterator(self, seed: int | None, epochs: range, skip_steps: int = 0) -> object:
        """Return an iterator over the batches of `epochs`, for `Strategy.run`, without the first `skip_steps` steps.

        Each epoch is shuffled in its own order with `seed`; with None all have the order of the files.
        """
        each = self.gang.replicas_per_member
        epoch_range = EpochRange(batches=self.steps * each, epochs=epochs, skip=skip_steps * each)

        def pipeline(_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
            return stream(self.examples, epoch_range, batch_size=self.batch_size, seed=seed)

        if self.gang.computes_on_one_cpu:
            # One replica on the CPU: nothing to distribute, and no copy to a device.
            with tf.device("CPU:0"):
                iterator = iter(pipeline())
        else:
            iterator = iter(self.gang.strategy.distribute_datasets_from_function(pipeline))
        _KEPT.append(iterator)
        return iterator


def input_pipeline_of(context: Context, examples: ExampleSource, field: str) -> InputPipeline:
    """Return the input pipeline of a split, with the number of examples of all members; a collective.

    Raises:
        DataMissingError: no member has an example.
        DataMalformedError: no member has an example, as all records were skipped.
    """
    counts = example_counts(context.gang, examples, field)
    size = batch_size(context.config, context.gang.replicas)
    return InputPipeline(gang=context.gang, examples=examples, batch_size=size, counts=counts)


def example_counts(gang: ReplicaGroup, examples: ExampleSource | FileSource, field: str) -> tuple[int, ...]:
    """Return the number of examples of every member, in order of rank; a collective.

    Raises:
        DataMissingError: no member has an example.
        DataMalformedError: no member has an example, as all records were skipped.
    """
    counts = tuple(round(count) for count in gang.all_gather(examples.count))
    if sum(counts):
        return counts
    skipped = round(gang.all_reduce_sum([examples.skipped])[0])
    if not skipped:
        raise DataMissingError(f"{field}: the files hold no example")
    first = examples.first_skipped or "see the messages of the other members"
    raise DataMalformedError(f"{field}: onBadRecord: Skip has skipped all {skipped} records; the first: {first}")
