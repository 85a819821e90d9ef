"""The batches of an epoch in blocks of several steps, as Keras' `EpochIterator` yields them to `fit` and `evaluate`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tfdist_trainer.keras.calls import comparison
from tfdist_trainer.keras.local_data import may_be_empty, takes_rows, warn_about_unused_rows, worker_rows
from tfdist_trainer.keras.same_data import FirstBatch
from tfdist_trainer.steps_per_execution import StepsPerExecutionTuner
from tfdist_trainer.upstream.strategy_worker import Worker


class StepsPerExecution:
    """How many steps run in one call: a constant number, or as many as take about half a second.

    The durations are means over all workers, so that all of them choose the same number.
    """

    def __init__(self, steps: int | None) -> None:
        """Run `steps` in each call; with None tune the number."""
        self.fixed = steps
        self._tuner = StepsPerExecutionTuner()

    @property
    def steps(self) -> int:
        """Steps of the next call."""
        return self.fixed or self._tuner.steps

    def observe(self, seconds: float) -> None:
        """Record the mean duration of a step of an earlier call; 0 if none is known."""
        if seconds > 0:
            self._tuner.observe(1, seconds)


@dataclass(slots=True)
class Block:
    """Some steps of an epoch, on the data of this worker."""

    source: "Batches"
    iterator: Any
    steps: int
    finished: int = field(init=False)
    """Finished steps: less than `steps` if the data ends within the block."""

    def __post_init__(self) -> None:
        self.finished = self.steps

    def __next__(self) -> Any:
        """Return the next batch of this worker, as `predict` reads it."""
        return next(self.iterator)


class Batches:
    """The batches of this worker, of a data set of global batches."""

    def __init__(
        self,
        dataset: Any,
        strategy: Any,
        worker: Worker,
        *,
        steps: int,
        ordered: bool,
        first: Any = None,
        smallest: int | None = None,
    ) -> None:
        """Batch `dataset` for `worker`.

        Args:
            dataset: global batches, or a data set that the script has distributed.
            strategy: of the model.
            worker: of this worker.
            steps: steps per execution.
            ordered: whether the order of the rows matters, as in `predict`.
            first: the first global batch, if it is known. A generator would not yield again what is read as an example.
            smallest: rows of the smallest global batch, which are known of arrays only.
        """
        self.steps_per_execution = StepsPerExecution(steps)
        # Known before the graph is traced: it is a static property of each step.
        self.may_be_empty = may_be_empty(dataset, worker, smallest)
        self.takes_rows = takes_rows(dataset, worker, ordered=ordered)
        """Whether `dataset` has this worker's rows of each global batch."""
        self._unchecked: FirstBatch | None = None
        if self.takes_rows:
            # Rows of different data on each worker would be used twice or never; compared after the first block.
            self._unchecked = FirstBatch(of_arrays=smallest is not None)
            dataset = worker_rows(dataset, worker, self._unchecked)
        elif isinstance(dataset, tf.data.Dataset):
            # TensorFlow shards the data set, by file or as its options say.
            warn_about_unused_rows(dataset)
            dataset = strategy.experimental_distribute_dataset(dataset)
        self.dataset = dataset
        self._strategy = strategy
        self._worker = worker
        self._first = first

    def check_end(self, end: int | None) -> None:
        """Check that this iteration ends after the same batch, number `end`, on all workers; None if unknown.

        Raises:
            ValueError: it does not.
            RuntimeError: another worker is in another call of Keras.
        """
        comparison(self._strategy, self._worker).check_batches(end)

    def blocks(self, iterator: Any, steps: int | None, begin: int = 0) -> Iterator[tuple[int, int, Block]]:
        """Yield the first and the last step of each block, and the block, from `begin` up to `steps`, or without end.

        If the script sets the steps of a block, all blocks are full, as in Keras: they end after `steps`.
        """
        while steps is None or begin < steps:
            size = self.steps_per_execution.steps
            if steps is not None and not self.steps_per_execution.fixed:
                # A tuned block ends with the epoch, a fixed one does not, as in Keras.
                size = min(size, steps - begin)
            block = Block(self, iterator, size)
            yield begin, begin + size - 1, block
            # After the block: the fingerprint is taken while the first batch is read.
            if self._unchecked is not None:
                comparison(self._strategy, self._worker).check_data(self._unchecked)
                self._unchecked = None
            if block.finished < block.steps:
                return
            begin += size

    @property
    def element_spec(self) -> Any:
        """Shapes and types of a batch of this worker."""
        return self.dataset.element_spec.rows if self.takes_rows else self.dataset.element_spec

    def example(self) -> Any:
        """Return a batch, or what has the shapes and types of one without reading data."""
        # The batch of a generator is used up by reading it.
        if self._first is not None:
            return self._first
        spec = self.element_spec
        parts = tf.nest.flatten(spec)
        # Shapes suffice to build, so nothing is read.
        if all(isinstance(each, tf.TensorSpec) and each.shape.rank and None not in each.shape[1:] for each in parts):
            return spec
        first = next(iter(self.dataset))
        if self.takes_rows:
            return first.rows
        return tf.nest.map_structure(lambda part: self._strategy.experimental_local_results(part)[0], first)
