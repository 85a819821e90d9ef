"""Images per second of the input of training on JPEG in TFRecord files, compared with a plain tf.data pipeline.

Both decode, crop at random, resize and flip each image, after a shuffle, on all cores. The plain one is what guides of
TensorFlow advise: interleaved files, a shuffle buffer, `map` with `AUTOTUNE`, `batch` and `prefetch`; it drops the last
batch.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from bench.results import Row, Samples, Target
from bench.trainer.processes import reported
from bench.trainer.resume import opened

IMAGES: Final = 2_000
FILES: Final = 4
PIXELS: Final = 256
"""Height and width of the files; the results have `SIZE`."""
SIZE: Final = 112
BATCH: Final = 64
BUFFER: Final = 1_000
ROUNDS: Final = 7
AS_FAST: Final = Target(ratio=1.0, text="<= the plain pipeline")


def run(folder: Path) -> list[Row]:
    """Return the time of an image in both pipelines."""
    folder.mkdir()
    samples = Samples()
    for speeds in reported("bench.trainer.jpeg", str(folder)):
        samples.add(
            {name: 1e3 / speed for name, speed in speeds.items()} | {f"{n} speed": s for n, s in speeds.items()}
        )
    ours, peer = (samples.median(f"{name} speed") or 0.0 for name in ("ours", "plain"))
    note = f"{ours:,.0f} and {peer:,.0f} images/s; {samples.spread('ours')} and {samples.spread('plain')} ms"
    title = f"data: JPEG of {PIXELS} x {PIXELS} in TFRecord, random crop to {SIZE} x {SIZE} and flip"
    figures = samples.median("ours"), samples.median("plain"), "ms an image"
    return [Row(title, *figures, AS_FAST, note, samples.ratio("ours", "plain"))]


def main(folder: Path) -> None:
    """Write the images, and print the images per second of both pipelines in each round."""
    _write(folder)
    iterators = {"ours": _ours(folder), "plain": _plain(folder)}
    speeds = []
    for number in range(1 + ROUNDS):
        names = list(iterators) if number % 2 else reversed(list(iterators))
        speeds.append({name: _speed(iterators[name]) for name in names})
    print(json.dumps(speeds[1:]), flush=True)  # the first round loads TensorFlow's kernels, and tunes


def _speed(make: Any) -> float:
    """Return the images per second of one epoch, without its first batches, which are prefetched or awaited."""
    iterator = make()
    for _ in range(2):
        next(iterator)
    began, batches = time.monotonic(), IMAGES // BATCH - 4
    for _ in range(batches):
        next(iterator)
    return batches * BATCH / (time.monotonic() - began)


def _write(folder: Path) -> None:
    """Write images with smooth content, as photographs have it: noise would be larger and slower to decode."""
    import numpy as np  # noqa: PLC0415  the process that starts this one needs none of them
    import tensorflow as tf  # noqa: PLC0415

    from tfdist_trainer.data.tfrecord import example  # noqa: PLC0415

    random = np.random.default_rng(0)
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"train-{number}.tfrecord")) as writer:
            for index in range(IMAGES // FILES):
                coarse = random.integers(0, 256, (16, 16, 3)).astype(np.float32)
                image = tf.cast(tf.image.resize(coarse, [PIXELS, PIXELS], method="bicubic"), tf.uint8)
                content = tf.io.encode_jpeg(image).numpy()
                writer.write(example({"image/encoded": content, "image/class/label": np.int64(index % 10)}))


def _ours(folder: Path) -> Any:
    """Return what makes an iterator over an epoch of the program `image_classification` on an only replica."""
    pipeline = opened(
        str(folder),
        imageShape=[SIZE, SIZE, 3],
        imageFormat="Encoded",
        augmentation=["RandomResizedCrop", "RandomFlip"],
        batchSizePerReplica=BATCH,
    )
    return lambda: pipeline.iterator(1, range(1))


def _plain(folder: Path) -> Any:
    """Return what makes an iterator over an epoch of the plain pipeline."""
    import tensorflow as tf  # noqa: PLC0415  see `_write`

    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def prepare(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        parts = tf.io.parse_single_example(record, features)
        image = tf.io.decode_jpeg(parts["image/encoded"], channels=3)
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.shape(image), tf.zeros([1, 0, 4]), area_range=(0.08, 1.0), min_object_covered=0.0,
            max_attempts=10, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        image = tf.image.resize(tf.slice(image, begin, size), [SIZE, SIZE], antialias=True)
        image = tf.cast(tf.clip_by_value(tf.round(image), 0, 255), tf.uint8)
        return tf.image.random_flip_left_right(image), parts["image/class/label"]

    def make() -> Any:
        files = tf.data.Dataset.list_files(f"{folder}/*.tfrecord")
        records = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)
        images = records.shuffle(BUFFER).map(prepare, num_parallel_calls=tf.data.AUTOTUNE)
        return iter(images.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE))

    return make


if __name__ == "__main__":
    main(Path(sys.argv[1]))
