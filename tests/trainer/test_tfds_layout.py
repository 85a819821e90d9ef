"""Files as TensorFlow Datasets prepares them: named by a pattern, and read without that package."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
import tensorflow as tf

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

SHARDS: Final = 4
SIZES: Final = {"train": 22, "test": 9}
PROGRAMS: Final[Mapping[str, dict[str, Any]]] = {
    "image_classification": {
        "imageFormat": "Encoded",
        "image": "image",
        "label": "label",
        "imageShape": [8, 8, 3],
        "model": "mlp",
    },
    "text_classification": {"classes": 2},
    "tabular": {
        "numeric": {"age": 1, "sizes": 3},
        "categorical": {"city": ["Oslo", "Rome"]},
        "label": "label",
        "classes": 2,
    },
}


def image(number: int) -> dict[str, tf.train.Feature]:
    """Return features as of `Image()`, `ClassLabel()`, and of some data sets a name of the file."""
    pixels = np.random.default_rng(number).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    encode = tf.io.encode_png if number % 2 else tf.io.encode_jpeg
    return {"image": texts(encode(pixels).numpy()), "label": integers(number % 2), "image/filename": texts(b"1.png")}


def text(number: int) -> dict[str, tf.train.Feature]:
    return {"text": texts(f"a text of kind {number % 2}".encode()), "label": integers(number % 2)}


def row(number: int) -> dict[str, tf.train.Feature]:
    """Return features of a table: `float32`, a tensor of shape [3], `Text()` and `ClassLabel()`."""
    numbers = {"age": floats(20.0 + number), "sizes": floats(0.5, -number, 1.0)}
    return numbers | {"city": texts(b"Oslo" if number % 2 else b"Rome"), "label": integers(number % 2)}


ROWS: Final[Mapping[str, Callable[[int], dict[str, tf.train.Feature]]]] = {
    "image_classification": image,
    "text_classification": text,
    "tabular": row,
}


def texts(*values: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def floats(*values: float) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def integers(*values: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def prepared(folder: Path, make: Callable[[int], dict[str, tf.train.Feature]]) -> Path:
    """Write a data set `toy` in version 1.0.0, and return its folder."""
    folder = folder / "toy/1.0.0"
    folder.mkdir(parents=True)
    for split, size in SIZES.items():
        for shard in range(SHARDS):
            with tf.io.TFRecordWriter(str(folder / f"toy-{split}.tfrecord-{shard:05}-of-{SHARDS:05}")) as writer:
                for number in range(shard, size, SHARDS):
                    example = tf.train.Example(features=tf.train.Features(feature=make(number)))
                    writer.write(example.SerializeToString())
    (folder / "dataset_info.json").write_text(json.dumps({"name": "toy", "version": "1.0.0"}))
    (folder / "features.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    "program",
    [
        "image_classification",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("text_classification", "tabular")),
    ],
)
def test_a_prepared_data_set_is_trained_and_evaluated_on(program: str, launch: "Launch", tmp_path: Path) -> None:
    # given
    folder = prepared(tmp_path / "tensorflow_datasets", ROWS[program])
    data = {"train": f"{folder}/toy-train.tfrecord-*", "eval": f"{folder}/toy-test.tfrecord-*"}
    config = {"data": data, "batchSizePerReplica": 4, "epochs": 1} | PROGRAMS[program]
    job = {"training": {"program": program, "config": config}, "checkpoint": {"directory": str(tmp_path / "ckpt")}}
    # when
    trained = launch(2, config={}, job=job)
    assert trained.wait() == [0, 0], trained.outputs
    evaluated = launch(config={}, job=job | {"task": "Evaluate"})
    assert evaluated.wait() == [0], evaluated.outputs
    # then
    report = evaluated.termination().evaluation
    assert report is not None
    assert report.examples == SIZES["test"]
