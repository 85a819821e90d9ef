"""An iteration of epochs that begins where another process has stopped has the same batches."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from tfdist_trainer.upstream import keras_epochs

pytestmark = pytest.mark.trainer

Batches = list[list[int]]
EPOCHS = 4
STEPS = 3


def rows() -> tf.data.Dataset:
    return tf.data.Dataset.range(12)


def of_unknown_length() -> tf.data.Dataset:
    return rows().shuffle(12).filter(lambda row: row >= 0).batch(4)


class Rows(keras.utils.PyDataset):  # type: ignore[misc]
    """Batches in an order that changes after each epoch."""

    def __init__(self) -> None:
        super().__init__()
        self._order = np.arange(12)

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> tuple[Any]:
        return (self._order[4 * index : 4 * index + 4],)

    def on_epoch_end(self) -> None:
        self._order = np.roll(self._order, 5)


def batches(x: Any, **options: Any) -> Any:
    strategy = tf.distribute.get_strategy()
    return keras_epochs.forwarded(TFEpochIterator, x=x, distribute_strategy=strategy, steps_per_execution=1, **options)


def one_epoch(found: Any) -> Iterator[list[int]]:
    with found.catch_stop_iteration():
        for _, _, iterator in found:
            yield tf.nest.flatten(next(iterator))[0].numpy().tolist()


WAYS: dict[str, Callable[[], Any]] = {
    "shuffled": lambda: batches(rows().shuffle(12).batch(4)),
    "the same order": lambda: batches(rows().batch(4)),
    "a cache of one order": lambda: batches(rows().shuffle(12).cache().batch(4)),
    "a shuffled cache": lambda: batches(rows().cache().shuffle(12).batch(4).prefetch(1)),
    "unknown length": lambda: batches(of_unknown_length()),
    "endless": lambda: batches(rows().shuffle(12).repeat().batch(4), steps_per_epoch=STEPS),
    "epochs of other lengths than the data": lambda: batches(rows().shuffle(12).batch(3), steps_per_epoch=2),
    "arrays": lambda: batches(np.arange(12), batch_size=4, shuffle=True),
    "PyDataset": lambda: batches(Rows()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("epochs", "first"), [(0, 1), (1, 0), (1, 2), (3, 1)])
def test_it_has_the_batches_of_an_iteration_from_the_beginning(way: str, epochs: int, first: int) -> None:
    # given
    keras.utils.set_random_seed(1)
    whole = WAYS[way]()
    whole.reset()
    expected = [[*one_epoch(whole)] for _ in range(EPOCHS)]
    # when
    keras.utils.set_random_seed(1)
    rest = WAYS[way]()
    rest.reset()
    rest.fast_forward(epochs, first, whole.batches_per_epoch)
    found = [[*one_epoch(rest)] for _ in range(epochs, EPOCHS)]
    # then
    assert found == [expected[epochs][first:], *expected[epochs + 1 :]]
