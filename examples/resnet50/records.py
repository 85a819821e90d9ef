"""Writes TFRecord files as ImageNet has them, of real images that are at hand: Fashion-MNIST.

An image of 28 pixels becomes a JPEG file of another size, in colors, because ImageNet's images differ in both. With
files of ImageNet this module has nothing to do.
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import tensorflow as tf

from tfdist.programs.data import DataConfig
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.programs.data_files import assignment

COUNTS: Final = {"train": 12_000, "eval": 2_000}
"""Images that are used of each split."""
FILES: Final = 4
"""Into which a split is written."""


def make(data: DataConfig, folder: str) -> DataConfig:
    """Return `data` as files in `folder`, which are written unless they are there. Several replicas may do so at once.

    Their records are read by index, as ImageNet's are.
    """
    patterns = {}
    for split, count in COUNTS.items():
        made = Path(folder, split)
        patterns[split] = (f"{made}/*.tfrecord",)
        if made.exists():
            continue
        made.parent.mkdir(parents=True, exist_ok=True)
        written = Path(tempfile.mkdtemp(dir=made.parent))
        written.chmod(0o755)
        with tf.device("CPU:0"):
            write(assignment(data, Split(split), Shard(0, 1)).files, count, written)
        try:
            written.rename(made)
        except OSError:  # another replica was faster
            shutil.rmtree(written)
    return data.model_copy(update=patterns)


def write(sources: Sequence[str], count: int, folder: Path) -> None:
    """Write the first `count` images of `sources` into some files."""
    parts = [np.load(source) for source in sources]
    images, labels = (np.concatenate([part[name] for part in parts])[:count] for name in ("image", "label"))
    random = np.random.default_rng(7)
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"part-{number}.tfrecord")) as writer:
            for image, label in zip(images[number::FILES], labels[number::FILES], strict=True):
                writer.write(record(image.reshape(28, 28), int(label), random))
    os.sync()


def record(image: np.ndarray, label: int, random: np.random.Generator) -> bytes:
    """Return a record of an image, uint8 [28, 28]: ImageNet's columns, with labels from 1."""
    size = random.integers(36, 64, 2)
    color, background = random.uniform(0.6, 1, 3), random.uniform(0, 60, 3)
    light = tf.image.resize(image[..., np.newaxis], size).numpy() / 255
    pixels = light * color * 255 + (1 - light) * background
    encoded = tf.io.encode_jpeg(pixels.astype(np.uint8), quality=90).numpy()
    feature = {
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[encoded])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label + 1])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()
