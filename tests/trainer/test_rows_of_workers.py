"""Which rows of a batch each worker computes, and which batches workers cannot share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist_trainer.keras import rows_check
from tfdist_trainer.keras.local_data import LocalRows, drop_uncounted_predictions, worker_rows
from tfdist_trainer.keras.same_data import FirstBatch
from tfdist_trainer.upstream.strategy_worker import Worker

pytestmark = pytest.mark.trainer

Data: Any = tf.data.Dataset


def numbers(rows: int, batch: int) -> Any:
    return Data.range(rows).map(float).batch(batch)


def of_each_worker(dataset: Any, workers: int) -> list[list[LocalRows]]:
    return [[*worker_rows(dataset, Worker(index, workers, 1), FirstBatch(of_arrays=False))] for index in range(workers)]


def joined(batches: list[LocalRows], part: int) -> list[float]:
    """Return the rows of a part that the workers compute of one batch."""
    return [float(value) for each in batches for value in tf.nest.flatten(each.rows)[part].numpy().ravel()]


@pytest.mark.parametrize("workers", [2, 3, 8])
@pytest.mark.parametrize("rows", range(1, 10))
def test_each_row_counts_once_and_no_worker_is_without_a_row(rows: int, workers: int) -> None:
    [batches] = zip(*of_each_worker(numbers(rows, rows), workers), strict=True)
    assert sum(int(each.examples) for each in batches) == rows
    assert all(each.rows.shape[0] == max(1, int(each.examples)) for each in batches)
    counted = [float(value) for each in batches for value in each.rows[: int(each.examples)]]
    assert counted == [*range(rows)]
    # when all workers predict
    predict = drop_uncounted_predictions(
        lambda _: tf.concat([each.rows for each in batches], axis=0), Worker(0, workers, 1)
    )
    assert predict([batches[0]]).numpy().tolist() == [*range(rows)]


ZIPPED: dict[str, Callable[[], Any]] = {
    "tuples": lambda: Data.zip(numbers(40, 4), numbers(120, 12)),
    "the larger first": lambda: Data.zip(numbers(120, 12), numbers(40, 4)),
    "a pair in a pair": lambda: Data.zip((Data.zip(numbers(40, 4), numbers(40, 4)), numbers(120, 12))),
    "dictionaries": lambda: Data.zip({"u": numbers(40, 4).prefetch(1), "a": numbers(120, 12).cache()}),
    "mapped before": lambda: Data.zip(numbers(40, 4).map(lambda x: (x, x + 1)), numbers(120, 12).repeat().map(tf.abs)),
    "mapped after": lambda: Data.zip(numbers(40, 4), numbers(120, 12)).map(lambda x, y: (-x, -y)).prefetch(1),
    "last batches of other sizes": lambda: Data.zip(numbers(10, 4), numbers(31, 12)),
    "equal sizes, other lengths": lambda: Data.zip(numbers(10, 4), numbers(7, 4)),
}


@pytest.mark.parametrize("way", ZIPPED)
def test_each_part_of_zipped_batches_is_cut_by_its_own_rows(way: str) -> None:
    dataset = ZIPPED[way]()
    found = [*zip(*of_each_worker(dataset, 2), strict=True)]
    for batches, whole in zip(found, dataset, strict=True):
        parts = tf.nest.flatten(whole)
        assert [joined(batches, index) for index in range(len(parts))] == [part.numpy().tolist() for part in parts]
        assert sum(int(each.examples) for each in batches) == len(parts[0])


def graphs() -> Any:
    """Graphs with 5, 6, ... atoms, each a batch."""
    sizes = Data.range(5, 9)
    return sizes.map(lambda n: ({"átoms": tf.ones([n, 3]), "bonds": tf.ones([2 * n, 2], tf.int32)}, tf.ones([1])))


def from_generator() -> Any:
    spec = (tf.TensorSpec([None]), tf.TensorSpec([None]))
    return Data.from_generator(lambda: iter([(np.ones(4), np.ones(12))]), output_signature=spec)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "graphs": (graphs, "x['bonds'] has 10, x['átoms'] has 5, y has 1."),
    "molecules that are merged after batch": (
        lambda: numbers(8, 4).map(lambda x: ((tf.repeat(x, 3), x[:2]), x)),
        "x[0] has 12, x[1] has 2, y has 4.",
    ),
    "fewer rows of one batch": (lambda: numbers(8, 4).map(lambda x: (x, x[:2])), "x has 4, y has 2."),
    "a vocabulary": (lambda: numbers(8, 4).map(lambda x: (x, tf.ones([3, 2]))), "x has 4, y has 3."),
    "a graph and labels": (
        lambda: Data.zip(numbers(8, 4).map(lambda x: tf.repeat(x, 5)), numbers(8, 4)),
        "x has 20, y has 4.",
    ),
    "joined after zip": (
        lambda: Data.zip(numbers(8, 4), numbers(16, 8)).map(lambda x, y: (tf.concat([x, y], 0), x)),
        "x has 12, y has 4.",
    ),
    "a part more after zip": (
        lambda: Data.zip(numbers(8, 4), numbers(16, 8)).map(lambda x, y: (x, y, y)),
        "x has 4, y has 8, sample_weight has 8.",
    ),
    "a generator": (from_generator, "x has 4, y has 12."),
    "ragged rows": (
        lambda: numbers(8, 4).map(lambda x: (tf.RaggedTensor.from_row_lengths(x, [1, 3]), x)),
        "x has 2, y has 4.",
    ),
}


@pytest.mark.parametrize("way", WRONG)
def test_parts_that_cannot_be_cut_are_an_error_with_their_names_and_rows(way: str) -> None:
    dataset, expected = WRONG[way]
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        of_each_worker(dataset(), 2)
    message = rows_check.batch_message(raised.value)
    assert message is not None
    assert f"different numbers of rows, of which each worker takes its own: {expected} " in message
    assert "strategy.distribute_datasets_from_function" in message


def test_zipped_batches_of_fewer_rows_than_workers_are_an_error_as_the_first_has_the_weight() -> None:
    with pytest.raises(ValueError, match=r"\(x 4, y 12\), and the first one, .* fewer than there are workers \(8\)"):
        of_each_worker(Data.zip(numbers(40, 4), numbers(120, 12)), 8)


def test_different_sizes_are_in_the_log_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        of_each_worker(Data.zip(numbers(40, 5), numbers(120, 15)), 2)
    assert capsys.readouterr().out.count('rows-differ batches="x 5, y 15" weight=x') == 1


def test_another_error_has_another_reason() -> None:
    assert rows_check.batch_message(tf.errors.InvalidArgumentError(None, None, "assertion failed: [x] [4]")) is None
