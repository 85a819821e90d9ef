"""Private hooks of Keras' iterator of epochs, which yields the batches of `fit`, `evaluate` and `predict`."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tfdist_trainer.upstream.hook import Hook

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
    reason="The shapes of a generator's batches are those of its first one, which it would not yield again.",
    missing="the first batch of a generator is not trained on",
)
HOOKS: Final = (EPOCH_ITERATOR, ENUMERATE, FIRST_BATCHES)


def epoch_iterator(original: Any, *args: Any, make_batches: Callable[[Any, int, Any], Any], **kwargs: Any) -> Any:
    """Return Keras' iterator of the epochs, of class `original`, over the blocks of `make_batches`.

    Args:
        original: the class.
        *args: its arguments.
        make_batches: called with a data set, steps per execution, and the first batch of a generator, or None.
        **kwargs: its arguments.
    """

    class EpochIterator(original):  # type: ignore[misc]
        """Keras' arguments and counts, and the blocks of steps of this worker's data."""

        def __init__(self) -> None:
            super(original, self).__init__(*args, **kwargs)
            self._num_batches: int | None = self.data_adapter.num_batches
            first = next(iter(getattr(self.data_adapter, FIRST_BATCHES.attribute, ())), None)
            self.batches = make_batches(self.data_adapter.get_tf_dataset(), self.steps_per_execution, first)
            self._distributed_dataset = self.batches.dataset

        def _enumerate_iterator(self) -> Iterator[tuple[int, int, Any]]:
            self.data_adapter.on_epoch_begin()
            if self._current_iterator is None or self.steps_per_epoch is None:
                self._restart()
            steps = self.steps_per_epoch or self._num_batches
            for begin, end, block in self.batches.blocks(self._current_iterator, steps):
                if self._num_batches and self._steps_seen >= self._num_batches:
                    self._interrupted_warning()
                    break
                yield begin, end, block
                self._count(begin, block)
            if self._num_batches and self._steps_seen >= self._num_batches:
                self._restart()
            self.data_adapter.on_epoch_end()

        def _restart(self) -> None:
            self._current_iterator = iter(self._distributed_dataset)
            self._steps_seen = 0

        def _count(self, begin: int, block: Any) -> None:
            self._steps_seen += block.finished
            if block.finished == block.steps:
                return
            if self._num_batches is None:
                self._num_batches = self._steps_seen
            if self.steps_per_epoch and begin + block.finished < self.steps_per_epoch:
                self._interrupted_warning()

    return EpochIterator()
