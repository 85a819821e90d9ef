"""What every task is given: the member, its gang, its program, and where to report."""

import socket
from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from tfdist.api.training import RuntimeSpec
from tfdist.contract import CheckpointSettings
from tfdist_trainer.data.files import Shard
from tfdist_trainer.data.pipeline import Examples, Stretch, steps_needed, stream
from tfdist_trainer.environment import Member
from tfdist_trainer.errors import DataMissingError
from tfdist_trainer.fence import Writer
from tfdist_trainer.notice import Notice
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.config import ProgramConfig, batch_size, rate_scale
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.standby import Gate
from tfdist_trainer.strategies.gang import Gang

_KEPT: Final[list[object]] = []
"""Every iterator, as long as the process lives. Destroying one waits for its pipeline: measured 1 to 40 s on a
busy machine, while the others wait in a collective. A task makes one, and the process ends without destroying."""


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of a task."""

    gang: Gang
    program: Program
    config: ProgramConfig
    checkpoint: CheckpointSettings | None
    reporter: Reporter
    notice: Notice
    settings: RuntimeSpec
    gate: Gate | None = None
    """Where this program is in reserve, what it waits at before it restores a checkpoint."""

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
        """What this member's input pipeline reads."""
        return Shard(index=self.member.rank, count=self.member.size)

    @property
    def scale(self) -> float:
        """What the learning rate is multiplied by for the gang's batch size; see `Program.optimizer`."""
        replicas = self.gang.replicas
        return rate_scale(self.config, batch_size(self.config, replicas) * replicas)

    @property
    def writer(self) -> Writer:
        """This replica as the writer of a checkpoint."""
        job, host = self.member.job, socket.gethostname()
        return Writer(
            job=job.uid, role=job.role, index=job.index, attempt=job.attempt, round=self.member.round, host=host
        )


@dataclass(frozen=True, slots=True)
class Supply:
    """One split's examples on this member, and what the gang agreed about its size."""

    gang: Gang
    examples: Examples
    batch_size: int
    counts: tuple[int, ...]
    """Examples of every member in order of rank."""

    @property
    def steps(self) -> int:
        """Steps after which every member has given all its examples."""
        return steps_needed(self.counts, self.batch_size, self.gang.replicas_per_member)

    def iterator(self, seed: int | None, epochs: range, skip_steps: int = 0) -> object:
        """Return an iterator of the batches of `epochs`, for `Strategy.run`, without the first `skip_steps` steps.

        The order is that of `seed`, another one each epoch, or with None that of the files.
        """
        each = self.gang.replicas_per_member
        stretch = Stretch(batches=self.steps * each, epochs=epochs, skip=skip_steps * each)

        def pipeline(_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
            return stream(self.examples, stretch, batch_size=self.batch_size, seed=seed)

        if self.gang.computes_on_one_cpu:
            # The batches are where they are needed, and there is nobody to share them with.
            with tf.device("CPU:0"):
                iterator = iter(pipeline())
        else:
            iterator = iter(self.gang.strategy.distribute_datasets_from_function(pipeline))
        _KEPT.append(iterator)
        return iterator


def supply_of(context: Context, examples: Examples, field: str) -> Supply:
    """Agree with the gang on the size of a split; a collective.

    Raises:
        DataMissingError: no member has an example.
    """
    counts = tuple(round(count) for count in context.gang.gather(examples.count))
    if not sum(counts):
        raise DataMissingError(f"{field}: the files hold no example")
    size = batch_size(context.config, context.gang.replicas)
    return Supply(gang=context.gang, examples=examples, batch_size=size, counts=counts)
