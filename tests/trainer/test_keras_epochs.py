"""An iteration of epochs that begins where another process has stopped has the same batches."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
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
    return keras_epochs.resumable_iterator(
        TFEpochIterator, x=x, distribute_strategy=strategy, steps_per_execution=1, **options
    )


def one_epoch(found: Any) -> Iterator[list[int]]:
    with found.catch_stop_iteration():
        for *_, iterator in found:  # Keras 3.10 has no number of the last batch
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


class CountedIterators:
    """A data set that counts its iterators."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self.dataset = dataset
        self.count = 0

    def __iter__(self) -> Iterator[Any]:
        self.count += 1
        return iter(self.dataset)


class WholeBatches:
    """The batches of an epoch as blocks of one step, with what Keras' iterator knows of them."""

    def __init__(self, dataset: tf.data.Dataset, smallest: int | None) -> None:
        self.dataset = CountedIterators(dataset)
        self.smallest = smallest
        self.end: int | None = None

    def check_end(self, end: int | None) -> None:
        self.end = end

    def blocks(self, _iterator: Any, steps: int, first: int) -> Iterator[tuple[int, int, Any]]:
        return ((step, step, SimpleNamespace(steps=1, finished=1)) for step in range(first, steps))


def of_several_workers(x: Any, **options: Any) -> Any:
    return keras_epochs.epoch_iterator(
        TFEpochIterator,
        x=x,
        steps_per_execution=1,
        make_batches=lambda dataset, _steps, _first, smallest: WholeBatches(dataset, smallest),
        **options,
    )


@pytest.mark.parametrize(
    ("data", "options", "iterators"),
    [
        (lambda: np.arange(12), {"batch_size": 4}, 2),
        (lambda: np.arange(12), {"batch_size": 4, "steps_per_epoch": 3}, 3),
        (lambda: rows().shuffle(12).batch(4), {}, 4),
    ],
    ids=["arrays", "arrays in epochs of a given length", "a data set, whose order depends on it"],
)
def test_two_epochs_make_as_many_iterators_as_have_an_effect(
    data: Callable[[], Any], options: dict[str, Any], iterators: int
) -> None:
    found = of_several_workers(data(), **options)

    for _ in range(2):
        assert len([*found]) == STEPS

    assert found.batches.dataset.count == iterators


@pytest.mark.parametrize(
    ("data", "options", "smallest"),
    [
        (lambda: np.arange(12), {"batch_size": 5}, 2),
        (lambda: np.arange(12), {"batch_size": 4}, 4),
        (lambda: rows().batch(5), {}, None),
    ],
    ids=["a last batch with fewer rows", "whole batches", "a data set"],
)
def test_the_rows_of_the_smallest_batch_of_arrays_are_known(
    data: Callable[[], Any], options: dict[str, Any], smallest: int
) -> None:
    assert of_several_workers(data(), **options).batches.smallest == smallest
