"""Preprocessing: exact over all members, and by layers that a saved model can begin with."""

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Barrier, Lock, Thread
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checkpoint_writers import by
from trainer import exported

from tfdist.api.export import ExportedModel
from tfdist.contract import ExportSettings, Task
from tfdist_trainer import preprocessing_state
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.export import export
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.preprocessing import Reducer

pytestmark = pytest.mark.trainer

Array = npt.NDArray[Any]
TABULAR: dict[str, Any] = {
    "data": {},
    "numeric": {"age": 1, "position": 2},
    "categorical": {"color": None, "size": ["small", "large"], "street": 5},
    "classes": 3,
}
STATISTICS = {
    "mean": {"age": [2000.0], "position": [0.0, 1.0]},
    "deviation": {"age": [10.0], "position": [1.0, 2.0]},
    "categories": {"color": ["red", "[UNK]", "blue"]},
}


@pytest.fixture
def columns() -> dict[str, tf.Tensor]:
    return {
        "age": tf.constant([2000.0, 2007.0]),
        "position": tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        "color": tf.constant(["blue", "green"]),
        "size": tf.constant(["large", "small"]),
        "street": tf.constant(["High Street", ""]),
    }


@pytest.fixture
def tabular() -> Any:
    program: Any = choose("tabular", TABULAR).create()
    program.load(STATISTICS)
    return program


def text_classification(vocabulary: list[str], **config: Any) -> Any:
    program: Any = choose("text_classification", {"data": {}, "maxSequenceLength": 4} | config).create()
    program.load({"standardize": "lower_and_strip_punctuation", "vocabulary": vocabulary})
    return program


class Together:
    """Members as threads, which add numbers as a gang of processes does."""

    def __init__(self, size: int) -> None:
        self._barrier, self._lock, self._size = Barrier(size, timeout=60), Lock(), size
        self._total: Array = np.zeros(0)

    def add(self, values: Any) -> Array:
        if self._barrier.wait() == 0:
            self._total = np.zeros(len(values))
        self._barrier.wait()
        with self._lock:
            self._total = self._total + np.asarray(values, np.float64)
        self._barrier.wait()
        return self._total.copy()

    def run(self, member: Callable[[int], Any]) -> list[Any]:
        results: list[Any] = [None] * self._size

        def call(rank: int) -> None:
            results[rank] = member(rank)

        threads = [Thread(target=call, args=(rank,)) for rank in range(self._size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results


@settings(max_examples=30)
@given(
    counts=st.lists(st.dictionaries(st.text(max_size=8), st.integers(1, 10**9), max_size=30), min_size=1, max_size=4)
)
def test_members_count_strings_as_one_would(counts: list[dict[str, int]]) -> None:
    gang = Together(len(counts))
    found = gang.run(lambda rank: Reducer(gang.add, rank, len(counts)).count(counts[rank]))
    whole: Counter[str] = Counter()
    for part in counts:
        whole.update(part)
    assert found == [whole] * len(counts)


def test_scales_and_categories_of_parts_are_those_of_the_whole() -> None:
    random = np.random.default_rng(1)
    values: Mapping[str, Array] = {
        "big": random.normal(1e5, 1, 57).astype(np.float32),
        "same": np.full(57, 3, np.float32),
        "kind": np.array([b"a", b"b", b"b"] * 19, object),
        "y": random.normal(5, 2, 57).astype(np.float32),
    }
    config = {"data": {}, "numeric": ["big", "same"], "categorical": {"kind": None}, "label": "y"}
    program: Any = choose("tabular", config).create()
    gang, ends = Together(3), [0, 50, 50, 57]

    def member(rank: int) -> Any:
        chosen = slice(ends[rank], ends[rank + 1])
        return program.adapt(
            lambda: iter([{key: array[chosen] for key, array in values.items()}]), Reducer(gang.add, rank, 3)
        )

    for learned in gang.run(member):
        exact = values["big"].astype(np.float64)
        assert learned["mean"]["big"] == pytest.approx([exact.mean()], rel=1e-15)
        assert learned["deviation"]["big"] == pytest.approx([exact.std()], rel=1e-12)
        assert learned["deviation"]["same"] == [1.0], "what never changes is not divided by 0"
        assert learned["categories"] == {"kind": ["b", "a"]}


def test_texts_of_any_bytes_become_indices_of_their_words() -> None:
    program = text_classification(["straße", "the"], model="conv")
    texts = tf.constant([b"The STRASSE, the Stra\xc3\x9fe!", b"", b"\xff\xfe the", b"don't a-b c d e f"])
    indices = program.features({"text": texts})
    assert indices.numpy().tolist() == [[3, 1, 3, 2], [0, 0, 0, 0], [1, 3, 0, 0], [1, 1, 1, 1]]
    assert program.model()(indices).shape == (4, 2)


def test_columns_become_numbers_and_indices_of_categories_and_hash_buckets(
    tabular: Any, columns: dict[str, tf.Tensor]
) -> None:
    features = tabular.features(columns)
    assert features["numeric"].numpy().tolist() == [[2000, 1, 2], [2007, 3, 4]]
    bucket = int(tf.strings.to_hash_bucket_fast("High Street", 5)) + 1
    assert features["categorical"].numpy().tolist() == [[3, 2, bucket], [0, 1, 0]]


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_numbers_are_normalized_in_float32_with_any_precision(
    policy: str, tabular: Any, columns: dict[str, tf.Tensor]
) -> None:
    keras.mixed_precision.set_global_policy(policy)
    try:
        model, features = tabular.model(), tabular.features(columns)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    normalize = next(layer for layer in model.layers if isinstance(layer, keras.layers.Rescaling))
    found = keras.Model(model.inputs, normalize.output)(features).numpy()
    np.testing.assert_allclose(found, [[0, 1, 0.5], [0.7, 3, 1.5]], rtol=1e-4, atol=1e-4)


def saved_predictions(model: keras.Model, columns: Mapping[str, tf.Tensor], folder: Path) -> Iterator[Array]:
    """Return the predictions of `model` after it was exported in each format and loaded again."""
    export(
        ExportSettings(directory=str(folder), formats=exported.FORMATS, which=[ExportedModel.FINAL]),
        ExportedModel.FINAL,
        model,
        1,
        by(),
    )
    return exported.predictions(folder / "final", columns)


def test_a_saved_model_with_the_layers_predicts_from_columns_as_the_pipeline_does(
    tabular: Any, columns: dict[str, tf.Tensor], tmp_path: Path
) -> None:
    model = tabular.model()
    pipeline = tf.data.Dataset.from_tensors(columns | {"label": tf.zeros([2], tf.int64)}).map(tabular.example)
    expected = model(next(iter(pipeline))[0]).numpy()
    for found in saved_predictions(tabular.serving_model(model), columns, tmp_path):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["averagePooling", pytest.param("conv", marks=pytest.mark.long)])
def test_a_saved_model_with_the_layers_predicts_from_texts_as_the_pipeline_does(kind: str, tmp_path: Path) -> None:
    program = text_classification(["good", "film"], model=kind)
    columns = {"text": tf.constant(["A good, GOOD film!", "", "film " * 9])}
    model = program.model()
    pipeline = tf.data.Dataset.from_tensors(columns | {"label": tf.zeros([3], tf.int64)}).map(program.example)
    expected = model(next(iter(pipeline))[0]).numpy()
    assert np.isfinite(expected).all(), "also of a text without words"
    for found in saved_predictions(program.serving_model(model), columns, tmp_path):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(texts=st.lists(st.text(max_size=20), min_size=1, max_size=6).map(lambda texts: [*texts, "the"]))
def test_members_count_the_words_that_the_layer_finds(texts: list[str]) -> None:
    config = {"data": {}, "maxSequenceLength": 30}
    program: Any = choose("text_classification", config).create()
    columns = {"text": np.array([text.encode() for text in texts], object)}
    gang = Together(2)
    states = gang.run(
        lambda rank: program.adapt(lambda: iter([{"text": columns["text"][rank::2]}]), Reducer(gang.add, rank, 2))
    )
    assert states == [program.adapt(lambda: iter([columns]), Reducer(np.asarray, 0, 1))] * 2
    program.load(states[0])
    indices = program.features({"text": tf.constant(columns["text"], tf.string)}).numpy()
    assert not (indices == 1).any(), "a word is out of the vocabulary of all words"
    assert sorted(set(indices.flat) - {0}) == list(range(2, 2 + len(states[0]["vocabulary"])))


def test_a_vocabulary_of_another_version_is_rejected() -> None:
    program: Any = choose("text_classification", {"data": {}}).create()
    with pytest.raises(ConfigurationError, match=r"another version wrote program\.json.* train in another directory"):
        program.load({"vocabulary": ["the"]})


def test_a_stored_state_that_cannot_be_read_now_is_not_adapted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints of the job are valid with the stored state only."""
    context: Any = SimpleNamespace(
        program=choose("tabular", TABULAR).create(),
        checkpoint=SimpleNamespace(directory=str(tmp_path), restore="Latest"),
        writer=SimpleNamespace(host="worker-0"),
        member=SimpleNamespace(job=SimpleNamespace(task=Task.TRAIN), is_chief=True),
    )

    def fail(*_: Any, **__: Any) -> str:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(Path, "read_text", fail)
    with pytest.raises(StorageError, match=r"program\.json: cannot be read: Input/output error \(EIO\)"):
        preprocessing_state.prepare(context)
