"""`fit` of a script in a job reports by itself: `Progress` is added once, and knows the size of a batch."""

import types
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdist_trainer
from tfdist_trainer.keras import progress
from tfdist_trainer.keras.decisions import TEST_BATCH, TRAIN_BATCH, batch_callbacks, worker_callbacks
from tfdist_trainer.keras.progress import ProgressHooks
from tfdist_trainer.keras.reporting import examples_per_batch, with_progress
from tfdist_trainer.script import current_report
from tfdist_trainer.upstream.strategy_worker import Worker

pytestmark = pytest.mark.trainer

ROWS = np.zeros([10, 2], "float32")


class Rows(keras.utils.PyDataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return ROWS


@pytest.mark.parametrize("callbacks", [None, keras.callbacks.History(), [keras.callbacks.History()]])
def test_progress_is_the_last_callback(callbacks: Any) -> None:
    *before, last = with_progress(callbacks, 8)
    assert isinstance(last, ProgressHooks)
    assert last.examples_per_batch == 8
    assert before == ([] if callbacks is None else tf.nest.flatten(callbacks))


def test_progress_of_the_script_is_not_doubled() -> None:
    own = [tfdist_trainer.keras.Progress()]
    assert with_progress(own, 8) is own
    assert own[0].examples_per_batch == 8


def test_several_steps_still_run_in_one_call() -> None:
    assert batch_callbacks(with_progress(None, 8), TRAIN_BATCH) == []


def test_a_validation_runs_as_many_batches_in_one_call_where_only_the_chief_has_the_callback() -> None:
    # given a callback that sees each batch of a validation
    board = keras.callbacks.TensorBoard(update_freq=1)
    # when another worker leaves it to the chief
    here = worker_callbacks(board, Worker(index=1, count=2, replicas_per_worker=1))
    # then it does not run, and its batches come one at a time there too
    assert board not in here
    assert batch_callbacks(here, TEST_BATCH) == batch_callbacks([board], TEST_BATCH) == ["TensorBoard"]


def test_a_container_of_callbacks_gets_progress_once() -> None:
    # given
    model = keras.Sequential([keras.layers.Dense(1)])
    container = keras.callbacks.CallbackList([], model=model, steps=3)
    # when it is used for two calls of `fit`
    assert with_progress(container, 8) is container
    assert with_progress(container, 8) is container
    # then
    [added] = [each for each in container.callbacks if isinstance(each, ProgressHooks)]
    assert (added.model, added.params) == (model, {"steps": 3})


def rows() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(ROWS)


@pytest.mark.parametrize(
    ("x", "batch_size", "size"),
    [
        pytest.param(lambda: ROWS, None, 32, id="an array"),
        pytest.param(lambda: {"a": ROWS, "b": [ROWS, tf.constant(ROWS)]}, 4, 4, id="several arrays"),
        pytest.param(lambda: rows().batch(4), None, 4, id="a data set"),
        pytest.param(lambda: rows().padded_batch(3, drop_remainder=True), None, 3, id="padded batches"),
        pytest.param(lambda: rows().batch(4).cache().shuffle(3).repeat().prefetch(1), None, 4, id="shuffled"),
        pytest.param(lambda: rows().batch(4, num_parallel_calls=2).map(tf.abs, 2), None, 4, id="mapped"),
        pytest.param(lambda: rows().batch(4).batch(2), None, 2, id="batches of batches"),
        pytest.param(lambda: rows().batch(4).unbatch(), None, None, id="no batches"),
        pytest.param(lambda: rows().batch(4).filter(lambda part: tf.shape(part)[0] > 1), None, None, id="chosen"),
        pytest.param(Rows, None, None, id="a PyDataset"),
        pytest.param(lambda: iter([ROWS]), None, None, id="a generator"),
        pytest.param(lambda: [[1.0], [2.0]], None, None, id="lists"),
        pytest.param(lambda: None, None, None, id="nothing"),
    ],
)
def test_examples_of_a_batch(x: Callable[[], Any], batch_size: int | None, size: int | None) -> None:
    assert examples_per_batch(x(), batch_size) == size


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the time that `Progress` sees."""
    now = types.SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr(progress, "time", now)

    def at(seconds: float) -> None:
        now.monotonic = lambda: seconds

    return at


def test_the_throughput_counts_neither_the_first_batch_nor_a_validation(clock: Callable[[float], None]) -> None:
    # given batches of 10 examples, two for each epoch
    callback = tfdist_trainer.keras.Progress(every_seconds=0)
    callback.examples_per_batch = 10
    callback.set_params({"steps": 2, "epochs": 2})
    callback.set_model(keras.Sequential([]))
    callback.on_train_begin()
    # when the first batch takes a minute to compile, the others 2 s, and the validation a minute
    throughputs = []
    for epoch, ends in enumerate([(60, 62), (124, 126)]):
        callback.on_epoch_begin(epoch)
        for batch, end in enumerate(ends):
            clock(end - 2)
            callback.on_train_batch_begin(batch)
            clock(end)
            callback.on_train_batch_end(batch, {})
            throughputs.append(current_report().examples_per_second)
        callback.on_epoch_end(epoch)
    # then
    assert throughputs == [None, 5, 5, 5]
