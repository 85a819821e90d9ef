"""Whether workers have the same data: which first batches count as different, and the seeds of what shuffles them."""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist_trainer.keras import seeds
from tfdist_trainer.keras.local_data import worker_rows
from tfdist_trainer.keras.same_data import UNKNOWN, Fingerprint, FirstBatch, fingerprint, first_difference
from tfdist_trainer.upstream.strategy_worker import Worker

pytestmark = pytest.mark.trainer

NUMBERS = np.random.RandomState(1).randn(64, 8)
CLASSES = np.arange(64) % 7
TEXTS = np.array([f"text {number}".encode() for number in range(64)], object)


def worker_with_other_data(*fingerprints: Fingerprint) -> int | None:
    return first_difference(np.array(fingerprints))


@pytest.mark.parametrize("part", [NUMBERS, NUMBERS.astype("float16"), np.abs(NUMBERS), CLASSES, TEXTS, CLASSES > 3])
def test_another_order_is_other_data(part: Any) -> None:
    other = part[np.random.RandomState(2).permutation(64)]
    assert worker_with_other_data(fingerprint([part]), fingerprint([part]), fingerprint([other])) == 2


@pytest.mark.parametrize(
    "parts",
    [
        ([NUMBERS], [NUMBERS * (1 + 1e-6 * np.random.RandomState(3).randn(64, 8))]),
        ([np.array([np.nan, 1.0])], [np.array([np.nan, 1.0])]),
        ([np.array([np.inf, 1.0])], [np.array([np.inf, 1.0])]),
        ([np.zeros([0, 3])], [np.zeros([0, 3])]),
    ],
    ids=["other rounding", "NaN", "infinite", "empty"],
)
def test_equal_data_is_not_different(parts: tuple[Any, Any]) -> None:
    assert worker_with_other_data(*map(fingerprint, parts)) is None


def test_data_that_one_worker_has_not_seen_is_not_compared() -> None:
    known = fingerprint([CLASSES])
    assert worker_with_other_data(UNKNOWN, known) is None
    assert worker_with_other_data(known, UNKNOWN, known) is None


def first_of(dataset: Any, *, of_arrays: bool = False) -> Fingerprint:
    first = FirstBatch(of_arrays=of_arrays)
    for _ in worker_rows(dataset, Worker(1, 2, 1), first):
        pass
    return first.fingerprint


def augmented(seed: int) -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices((NUMBERS, CLASSES)).batch(16)
    return data.map(lambda x, y: (x + tf.random.stateless_normal([16, 8], [seed, seed], dtype=x.dtype), y))


def test_labels_are_compared_of_data_that_may_be_augmented_and_all_parts_of_arrays() -> None:
    assert first_of(augmented(1)) == first_of(augmented(2)) == fingerprint([CLASSES[:16]])
    assert first_of(augmented(1), of_arrays=True) != first_of(augmented(2), of_arrays=True)


def test_parts_of_any_kind_have_a_fingerprint() -> None:
    ragged = tf.ragged.constant([[1, 2], [3]])
    data = tf.data.Dataset.from_tensors({"ragged": ragged, "sparse": tf.sparse.eye(2), "text": tf.constant(["a", "b"])})
    assert first_of(data)[0] > 0


ENVIRON = {"TF_CONFIG": json.dumps({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}})}


@pytest.fixture
def restored() -> Any:
    states = np.random.get_state(), random.getstate()
    yield states
    np.random.set_state(states[0])
    random.setstate(states[1])


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("change", [lambda: random.seed(4), lambda: random.sample(range(5000), 2000)])
def test_the_seed_of_a_script_for_python_stays(change: Callable[[], Any]) -> None:
    initial = random.Random().getstate()  # noqa: S311
    random.setstate(initial)
    change()
    expected = random.getstate()
    seeds.set_python_seed(ENVIRON, initial)
    assert random.getstate() == expected


@pytest.mark.usefixtures("restored")
def test_python_gets_an_equal_seed_also_after_an_import_that_has_drawn_numbers() -> None:
    drawn = []
    for draws in (0, 3):
        initial = random.Random().getstate()  # noqa: S311
        random.setstate(initial)
        _ = [random.random() for _ in range(draws)]  # noqa: S311
        seeds.set_python_seed(ENVIRON, initial)
        drawn.append(random.random())  # noqa: S311
    assert drawn[0] == drawn[1]


SCRIPT = """
import os, random, sys
from tfdist_trainer.keras_import import install
install()
import numpy as np
if "seeded" in sys.argv:
    np.random.seed(5)
    random.seed(5)
import keras
print(np.random.randint(10**9), random.random())
"""


def test_a_script_without_a_seed_draws_equal_numbers_on_all_workers_and_its_own_with_one() -> None:
    def numbers(*arguments: str, index: int | None = 0) -> subprocess.Popen[str]:
        config = json.loads(ENVIRON["TF_CONFIG"]) | {"task": {"type": "worker", "index": index}}
        environ = {"PYTHONPATH": ":".join(sys.path), "TF_CONFIG": json.dumps(config if index is not None else {})}
        command = [sys.executable, "-c", SCRIPT, *arguments]
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)

    running = [numbers(), numbers(index=1), numbers("seeded"), numbers("seeded", index=None)]
    first, second, seeded, alone = (process.communicate()[0].splitlines()[-1] for process in running)
    assert first == second
    assert seeded == alone
