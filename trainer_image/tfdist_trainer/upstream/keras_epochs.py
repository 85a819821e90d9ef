"""Private hooks of Keras' iterator of epochs, which yields the batches of `fit`, `evaluate` and `predict`."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.upstream.dataset_graph import caches
from tfdist_trainer.upstream.hook import Hook
from tfdist_trainer.upstream.versions import keras_is_before

_ITERATOR: Final = "keras.src.backend.tensorflow.trainer:TFEpochIterator"
_MISSING: Final = "`fit` under several workers is left to Keras, and fails"

EPOCH_ITERATOR: Final = Hook(
    package="keras",
    name=_ITERATOR,
    reason="Keras distributes data sets in a way that loses the order of arrays, and yields blocks of constant size.",
    missing=_MISSING,
    parameters=("distribute_strategy", "args", "kwargs"),
)
ENUMERATE: Final = Hook(
    package="keras",
    name=f"{_ITERATOR}._enumerate_iterator",
    reason="Yields the blocks of steps of an epoch.",
    missing=_MISSING,
    parameters=("self",),
)
FIRST_BATCHES: Final = Hook(
    package="keras",
    name="keras.src.trainers.data_adapters.generator_data_adapter:GeneratorDataAdapter()._first_batches",
    reason="The shapes of a generator's batches come from its first one, which it would not yield again.",
    missing="the first batch of a generator is not trained on",
)
ARRAYS: Final = Hook(
    package="keras",
    name="keras.src.trainers.data_adapters.array_data_adapter:ArrayDataAdapter",
    reason="The order of arrays does not depend on how many iterators were made, so one for each epoch suffices.",
    missing="an epoch begins 25 ms later",
)
HOOKS: Final = (EPOCH_ITERATOR, ENUMERATE, FIRST_BATCHES, ARRAYS)


def epoch_iterator(
    original: Any, *args: Any, make_batches: Callable[[Any, int, Any, int | None], Any], **kwargs: Any
) -> Any:
    """Return Keras' iterator of the epochs, of class `original`, over the blocks of `make_batches`.

    Args:
        original: the class.
        *args: its arguments.
        make_batches: of a data set, steps per execution, a generator's first batch or None, fewest rows or None.
        **kwargs: its arguments.
    """

    class EpochIterator(ResumableEpochs, original):  # type: ignore[misc]
        """Keras' arguments and counts, and the blocks of steps of this worker's data."""

        def __init__(self) -> None:
            # The initializer of Keras' base class: its TensorFlow class would distribute the data set.
            super(original, self).__init__(*args, **kwargs)
            self._num_batches: int | None = self.data_adapter.num_batches
            # Keras has read it for its shapes, and a generator would not yield it again.
            first = next(iter(getattr(self.data_adapter, FIRST_BATCHES.attribute, ())), None)
            self.batches = make_batches(
                self.data_adapter.get_tf_dataset(), self.steps_per_execution, first, _smallest_batch(self.data_adapter)
            )
            self._distributed_dataset = self.batches.dataset

        def _enumerate_iterator(self) -> Iterator[tuple[Any, ...]]:
            self.data_adapter.on_epoch_begin()
            if self._current_iterator is None or self.steps_per_epoch is None:
                self._restart()
            # Once: the next epoch begins at its begin.
            first, self._first = self._first, 0
            self._advance(first)
            steps = self.steps_per_epoch or self._num_batches
            # Before the first batch: a worker with one batch more would wait in a collective for ever.
            self.batches.check_end(_end(self, steps, first))
            for begin, end, block in self.batches.blocks(self._current_iterator, steps, first):
                if self._num_batches and self._steps_seen >= self._num_batches:
                    self._interrupted_warning()
                    break
                yield _entry(begin, end, block)
                self._count(begin, block)
            # As Keras does: data that is shuffled anew has another order for each iterator.
            if self._num_batches and self._steps_seen >= self._num_batches and not _creates_iterator_at_begin(self):
                self._restart()
            self.data_adapter.on_epoch_end()

        def _restarts_at_end(self) -> bool:
            return True

        def _count(self, begin: int, block: Any) -> None:
            self._steps_seen += block.finished
            if block.finished == block.steps:
                return
            if self._num_batches is None:
                self._num_batches = self._steps_seen
            if self.steps_per_epoch and begin + block.finished < self.steps_per_epoch:
                self._interrupted_warning()

    return EpochIterator()


def _entry(begin: int, end: int, block: Any) -> tuple[Any, ...]:
    """Return what Keras' iterator yields for a block: until 3.10 without the number of its last batch."""
    return (begin, block) if keras_is_before("3.11") else (begin, end, block)


def _end(iterator: Any, steps: int | None, first: int) -> int | None:
    """Return how many batches the epoch has that begins at `first`; None if unknown."""
    batches: int | None = iterator._num_batches
    if steps is None or batches is None:
        return steps
    return min(steps, first + max(0, batches - int(iterator._steps_seen)))


def resumable_iterator(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Return Keras' iterator of the epochs, of class `original`, which can begin within an epoch."""

    class EpochIterator(ResumableEpochs, original):  # type: ignore[misc]
        """Keras' own, of one worker."""

        def _enumerate_iterator(self) -> Iterator[tuple[Any, ...]]:
            first, self._first = self._first, 0
            for entry in super()._enumerate_iterator():
                if entry[0] >= first:
                    yield entry
                else:
                    read(entry[-1], self.steps_per_execution)

    return EpochIterator(*args, **kwargs)


def _smallest_batch(adapter: Any) -> int | None:
    """Return the rows of the smallest batch of arrays; None for other data, the sizes of which may change."""
    if not _has_arrays(adapter):
        return None
    rows: int = adapter.partial_batch_size or adapter.batch_size
    return rows


def _creates_iterator_at_begin(epochs: Any) -> bool:
    """Return whether an iterator that is created at the end of an epoch would have no effect.

    Keras creates another one at the beginning of the next epoch, unless that continues this one.
    """
    return epochs.steps_per_epoch is None and _has_arrays(epochs.data_adapter)


def _has_arrays(adapter: Any) -> bool:
    return type(adapter).__name__ == ARRAYS.attribute


class ResumableEpochs:
    """Begins an iteration of epochs where an earlier process has stopped."""

    data_adapter: Any
    steps_per_epoch: int | None
    _num_batches: int | None
    _distributed_dataset: Any
    _current_iterator: Any
    _steps_seen: int
    _first: int = 0
    """Batches of the next epoch that are read and skipped."""

    @property
    def element_spec(self) -> Any:
        """Shapes and types of a batch; None if a part is not a tensor."""
        spec = getattr(getattr(self, "batches", self._distributed_dataset), "element_spec", None)
        return spec if all(isinstance(each, tf.TensorSpec) for each in tf.nest.flatten(spec)) else None

    @property
    def batches_per_epoch(self) -> int | None:
        """Batches of an epoch; None while Keras does not know them."""
        return self._num_batches

    def fast_forward(self, epochs: int, batches: int, batches_per_epoch: int | None) -> None:
        """Begin after `epochs` epochs, and `batches` batches of the next one, as if they had been iterated.

        Skipped data is read only if the position depends on it: the batches of the epoch, of an endless data
        set, and one epoch of a cache. Otherwise it suffices to create the iterators that Keras creates, each of which
        has another order of a `shuffle`.

        Args:
            epochs: finished epochs.
            batches: finished batches of the next epoch.
            batches_per_epoch: of the earlier iterator.
        """
        # As if they had been iterated: each step is what Keras does in an epoch, without the batches.
        for epoch in range(epochs):
            self.data_adapter.on_epoch_begin()
            if self._current_iterator is None or self.steps_per_epoch is None:
                self._restart()
            if self.steps_per_epoch is not None:
                self._advance(self.steps_per_epoch)
                if self._num_batches and self._steps_seen >= self._num_batches:
                    self._restart()
            # A cache is filled by a whole iteration only, and later epochs read it.
            elif epoch == 0 and caches(self._distributed_dataset):
                read(self._current_iterator, None)
            if self.steps_per_epoch is None and self._restarts_at_end():
                self._restart()
            self.data_adapter.on_epoch_end()
        # The earlier process had counted them, if Keras does not know them before the first epoch ends.
        self._num_batches = self._num_batches or batches_per_epoch
        self._first = batches

    def _restarts_at_end(self) -> bool:
        """Return whether an iterator is created at the end of an epoch, and another at the beginning of the next.

        Keras counts one batch too many if it does not know the number, and then does not detect the end.
        """
        return bool(self._num_batches)

    def _restart(self) -> None:
        self._current_iterator = iter(self._distributed_dataset)
        self._steps_seen = 0

    def _advance(self, batches: int) -> None:
        read(self._current_iterator, batches)
        self._steps_seen += batches


def read(iterator: Any, batches: int | None) -> None:
    """Read `batches` batches, with None all, and drop them."""
    for _ in itertools.islice(iterator, batches):
        pass
