"""The batches of one member's examples, of which every member uses equally many."""

from dataclasses import dataclass
from typing import Final

import tensorflow as tf

from tfdist.programs.config import ProgramConfig
from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.data.batches import ReplicaShare
from tfdist_trainer.data.pipeline import EpochRange, ExampleSource, steps_needed, stream
from tfdist_trainer.data.source import FileSource
from tfdist_trainer.errors import DataMalformedError, DataMissingError
from tfdist_trainer.programs.config import batch_size
from tfdist_trainer.strategies.replica_group import ReplicaGroup

_START: Final = DataCursor(step=0)


@dataclass(frozen=True, slots=True)
class InputPipeline:
    """The examples of one split on this member, and the number of examples of every member."""

    gang: ReplicaGroup
    examples: ExampleSource
    batch_size: int
    counts: tuple[int, ...]
    """Number of examples of every member, in order of rank. For examples that are read by index: the number of all
    examples, and 0, so that no checkpoint of the other way has the same counts."""
    order: int | None = None
    """Identifies what determines the order of the examples of an epoch; not 0. None if no order is to be resumed."""

    @property
    def sharding_signature(self) -> tuple[int, ...]:
        """See `DataCursor.sharding_signature`."""
        order = () if self.order is None else (self.order,)
        return (self.batch_size, self.gang.replicas, *self.counts, *order)

    @property
    def steps(self) -> int:
        """Steps in an epoch, after which every member has used all its examples."""
        # By index all members share each global batch (ADR 40).
        replicas = self.gang.replicas if self.examples.by_index else self.gang.replicas_per_member
        return steps_needed(self.counts, self.batch_size, replicas)

    def steps_left(self, cursor: DataCursor) -> int:
        """Return the steps from `cursor` to the end of its epoch.

        With examples that are read by index, a gang of another size may have taken the steps before.
        """
        if not self.examples.by_index:
            return self.steps - cursor.step_in_epoch
        return steps_needed([self.examples.count - cursor.examples_in_epoch], self.batch_size, self.gang.replicas)

    def total_steps(self, cursor: DataCursor, epochs: int) -> int:
        """Return the steps of a training of `epochs` epochs: those up to `cursor`, and those that this gang adds."""
        return cursor.step + self.steps_left(cursor) + (epochs - cursor.epoch - 1) * self.steps

    def percent(self, cursor: DataCursor, epochs: int) -> float | None:
        """Return the share of the examples of `epochs` epochs that is used at `cursor`, in percent.

        None if they are not read by index: then an epoch has the same steps from its start to its end.
        """
        if not self.examples.by_index:
            return None
        used = cursor.epoch * self.examples.count + cursor.examples_in_epoch
        return min(100.0, 100 * used / (epochs * self.examples.count))

    def iterator(self, seed: int | None, epochs: range, cursor: DataCursor = _START) -> object:
        """Return an iterator over the batches of `epochs`, for `Strategy.run`, from `cursor` in the first of them.

        Each epoch is shuffled in its own order with `seed`; with None all have the order of the files.
        """
        replicas = self.gang.replicas_per_member
        epoch_range = EpochRange(
            batches=self.steps * replicas,
            epochs=epochs,
            skip=cursor.step_in_epoch * replicas,
            consumed=cursor.examples_in_epoch,
            share=ReplicaShare(self.gang.rank * replicas, replicas, self.gang.replicas),
        )

        def pipeline(_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
            return stream(self.examples, epoch_range, batch_size=self.batch_size, seed=seed)

        if self.gang.computes_on_one_cpu:
            # One replica on the CPU: nothing to distribute, and no copy to a device.
            with tf.device("CPU:0"):
                return iter(pipeline())
        return iter(self.gang.strategy.distribute_datasets_from_function(pipeline))


def open_input_pipeline(
    gang: ReplicaGroup, examples: ExampleSource, config: ProgramConfig, field: str
) -> InputPipeline:
    """Return the input pipeline of a split, with the number of examples of all members; a collective.

    Every member has counted examples that are read by index, so these need no collective.

    Raises:
        DataMissingError: no member has an example.
        DataMalformedError: no member has an example, as all records were skipped.
    """
    # Every member has counted all examples: nothing to exchange.
    if examples.by_index and examples.count:
        return InputPipeline(gang, examples, batch_size(config, gang.replicas), (examples.count, 0))
    counts = example_counts(gang, examples, field)
    return InputPipeline(gang, examples, batch_size(config, gang.replicas), counts)


def example_counts(gang: ReplicaGroup, examples: ExampleSource | FileSource, field: str) -> tuple[int, ...]:
    """Return the number of examples of every member, in order of rank; a collective.

    Raises:
        DataMissingError: no member has an example.
        DataMalformedError: no member has an example, as all records were skipped.
    """
    # Exchanged once: from the counts of all, each member knows the steps of an epoch, and none stops before the others
    # (ADR 4).
    counts = tuple(round(count) for count in gang.all_gather(examples.count))
    if sum(counts):
        return counts
    skipped = round(gang.all_reduce_sum([examples.skipped])[0])
    if not skipped:
        raise DataMissingError(f"{field}: the files hold no example")
    first = examples.first_skipped or "see the messages of the other members"
    raise DataMalformedError(f"{field}: onBadRecord: Skip has skipped all {skipped} records; the first: {first}")
