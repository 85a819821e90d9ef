"""JPEG and PNG files in TFRecord files: decoded after the shuffle, fitted to one size, augmented in training."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pytest
import tensorflow as tf

from tfdist_trainer.data import tfrecord
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import Batch, EpochRange, steps_needed, stream
from tfdist_trainer.errors import ConfigurationError, DataMalformedError
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.from_files import explain_data_errors

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

Image = npt.NDArray[np.uint8]
BATCH: Final = 4
SHAPE: Final = (16, 12, 3)


def pixels(height: int, width: int, seed: int = 0) -> Image:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def png(image: Image) -> bytes:
    encoded: bytes = tf.io.encode_png(image).numpy()
    return encoded


def jpeg(image: Image) -> bytes:
    encoded: bytes = tf.io.encode_jpeg(image, quality=100).numpy()
    return encoded


def write(path: Path, contents: list[bytes], label: int = 0, names: Mapping[str, str] | None = None) -> str:
    """Write a record of each file in `contents` with the labels `label`, `label` + 1 ..."""
    names = names or {"image": "image/encoded", "label": "image/class/label"}
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number, content in enumerate(contents):
            writer.write(tfrecord.example({names["image"]: content, names["label"]: label + number}))
    return str(path)


def program(pattern: object, data: Mapping[str, Any] | None = None, **config: Any) -> Any:
    config = {"imageFormat": "Encoded", "imageShape": list(SHAPE), "classes": 100, "shuffleBuffer": 5} | config
    files = {"train": str(pattern), "eval": str(pattern)}
    return choose("image_classification", {"data": files | dict(data or {})} | config).create()


def batches(
    made: Any,
    split: Split = Split.TRAIN,
    *,
    seed: int | None = 0,
    epochs: range = range(1),
    skip: int = 0,
    shard: Shard = Shard(0, 1),  # noqa: B008  immutable
    steps: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches of the epochs of one pipeline."""
    examples = made.examples(split, shard)
    steps = steps_needed([examples.count], BATCH, 1) if steps is None else steps
    dataset = stream(examples, EpochRange(steps, epochs, skip), batch_size=BATCH, seed=seed)
    yield from dataset.take(steps * len(epochs) - skip)


def read(made: Any, split: Split = Split.EVAL, **options: Any) -> dict[int, Image]:
    """Return the images of an epoch by label; each label is once in it."""
    found: dict[int, Image] = {}
    options = {"seed": None} | options
    for batch in batches(made, split, **options):
        assert batch.features.shape == (BATCH, *made.config.image_shape)
        for image, label in zip(
            batch.features[batch.valid_mask].numpy(), batch.labels[batch.valid_mask].numpy(), strict=True
        ):
            assert label not in found
            found[int(label)] = image
    return found


def test_a_png_of_the_configured_size_has_the_values_of_raw_pixels(tmp_path: Path) -> None:
    images = [pixels(16, 12, seed) for seed in range(9)]
    encoded = read(program(write(tmp_path / "encoded", [png(image) for image in images])))
    names = {"image": "image", "label": "label"}
    raw = read(program(write(tmp_path / "raw", [image.tobytes() for image in images], names=names), imageFormat="Raw"))
    for number, image in enumerate(images):
        np.testing.assert_array_equal(encoded[number], image)
        np.testing.assert_array_equal(raw[number], image)


def test_jpegs_and_pngs_of_any_size_are_fitted_and_other_channels_converted(tmp_path: Path) -> None:
    plain = np.full((300, 40, 3), (200, 40, 90), np.uint8)
    gray = np.full((7, 7, 1), 77, np.uint8)
    found = read(program(write(tmp_path / "x", [jpeg(plain), png(plain), jpeg(gray), png(gray)])))
    np.testing.assert_allclose(found[0], np.broadcast_to([200, 40, 90], SHAPE), atol=3)
    np.testing.assert_array_equal(found[1], np.broadcast_to(np.array([200, 40, 90], np.uint8), SHAPE))
    np.testing.assert_allclose(found[2], np.full(SHAPE, 77), atol=1)
    np.testing.assert_array_equal(found[3], np.full(SHAPE, 77))


@pytest.mark.parametrize(("height", "width"), [(32, 100), (90, 24), (32, 24)])
def test_the_center_is_kept_with_its_ratio_of_height_and_width(height: int, width: int, tmp_path: Path) -> None:
    image = np.zeros((height, width, 3), np.uint8)
    top, left = (height - 32) // 2, (width - 24) // 2
    image[top : top + 32, left : left + 24] = np.repeat(np.repeat(pixels(16, 12) // 2 + 100, 2, 0), 2, 1)
    expected = tf.image.resize(image[top : top + 32, left : left + 24], SHAPE[:2], antialias=True)
    found = read(program(write(tmp_path / "x", [png(image)])))
    np.testing.assert_allclose(found[0], expected, atol=0.5)


def test_features_have_the_names_of_imagenet_or_others_and_labels_may_begin_at_one(tmp_path: Path) -> None:
    contents = [png(pixels(16, 12, seed)) for seed in range(3)]
    assert set(read(program(write(tmp_path / "x", contents, label=1), labelOffset=1, classes=3))) == {0, 1, 2}
    own = write(tmp_path / "y", contents, names={"image": "photo", "label": "species"})
    assert set(read(program(own, image="photo", label="species"))) == {0, 1, 2}
    made = program(tmp_path / "x", classes=3)
    with (
        pytest.raises(DataMalformedError, match="'image/class/label' is 3, expected 0 to 2"),
        explain_data_errors(made),
    ):
        read(made)


@pytest.mark.parametrize("cache", [False, True])
def test_two_workers_read_each_image_once_in_a_new_order_each_epoch(cache: bool, tmp_path: Path) -> None:
    for part, size in enumerate((11, 4, 8)):
        write(tmp_path / f"{part}", [png(pixels(20 + n, 30 - n)) for n in range(size)], label=part * 20)
    made = program(tmp_path / "*", data={"cache": cache})
    orders: list[list[list[int]]] = [[], []]
    for index in range(2):
        found = batches(made, seed=3, epochs=range(2), steps=4, shard=Shard(index, 2))
        labels = [batch.labels[batch.valid_mask].numpy().tolist() for batch in found]
        for epoch in range(2):
            orders[epoch].append([*chain(*labels[epoch * 4 : epoch * 4 + 4])])
    for order in orders:
        assert sorted(order[0] + order[1]) == [*range(11), *range(20, 24), *range(40, 48)]
    assert orders[0] != orders[1]


BAD: Final[dict[str, tuple[Callable[[], bytes], str]]] = {
    "a truncated JPEG": (
        lambda: jpeg(pixels(30, 30))[:400],
        "is a JPEG file of 400 bytes that cannot be decoded: jpeg::Uncompress failed",
    ),
    "a truncated PNG": (
        lambda: png(pixels(30, 30))[:400],
        "is a PNG file of 400 bytes that cannot be decoded: Invalid PNG data",
    ),
    "raw pixels": (
        lambda: bytes(16 * 12 * 3),
        "is not a JPEG or PNG file: 576 bytes that begin with 0000000000000000; for raw pixels set imageFormat: Raw",
    ),
    "nothing": (lambda: b"", "is not a JPEG or PNG file: 0 bytes that begin with nothing"),
}


@pytest.mark.parametrize(("content", "message"), BAD.values(), ids=BAD.keys())
def test_an_image_that_cannot_be_decoded_is_one_bad_record(
    content: Callable[[], bytes], message: str, tmp_path: Path
) -> None:
    good = [png(pixels(20, 20)), jpeg(pixels(9, 30))]
    path = write(tmp_path / "x", [*good, content(), *good])
    made = program(path)
    with pytest.raises(DataMalformedError, match=f"x: record 2: 'image/encoded' {message}"), explain_data_errors(made):
        read(made)
    skipping = program(path, data={"onBadRecord": "Skip"})
    assert set(read(skipping)) == {0, 1, 3, 4}
    assert skipping.source(Split.EVAL, Shard(0, 1)).skipped == 1


def test_an_image_without_the_configured_channels_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [png(pixels(20, 20)), jpeg(pixels(20, 20))])
    made = program(path, imageShape=[16, 12, 4])
    with (
        pytest.raises(DataMalformedError, match=r"x: record 1: .*JPEG does not support 4 channels"),
        explain_data_errors(made),
    ):
        read(made)


def test_an_absent_feature_is_reported_with_those_that_exist(tmp_path: Path) -> None:
    made = program(write(tmp_path / "x", [png(pixels(20, 20))], names={"image": "photo", "label": "label"}))
    message = r"x: record 0: .*it has no 'image/encoded'; it has \['label', 'photo'\]"
    with pytest.raises(DataMalformedError, match=message), explain_data_errors(made):
        read(made)


def test_files_of_other_formats_are_rejected_by_the_field(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"")
    made = program(tmp_path / "x.npz")
    with pytest.raises(ConfigurationError, match=r"training.config.imageFormat: .*only from TFRecord.*x.npz is read"):
        made.examples(Split.TRAIN, Shard(0, 1))


AUGMENTATION: Final = ["RandomResizedCrop", "RandomFlip"]


@pytest.mark.parametrize("buffer", [5, pytest.param(0, marks=pytest.mark.long)])
def test_augmentation_differs_by_epoch_and_worker_and_is_the_same_after_a_restart(buffer: int, tmp_path: Path) -> None:
    same = [png(pixels(40, 40))] * 13
    made = program(write(tmp_path / "x", same), augmentation=AUGMENTATION, shuffleBuffer=buffer)
    options: dict[str, Any] = {"seed": 7, "steps": 4}

    def images(*, skip: int = 0, index: int = 0) -> list[Image]:
        found = batches(made, epochs=range(2), skip=skip, shard=Shard(index, 2), **options)
        return [batch.features[batch.valid_mask].numpy() for batch in found]

    whole = images()
    for number, again in enumerate(images(skip=1), start=1):
        np.testing.assert_array_equal(again, whole[number])
    each = {image.tobytes() for batch in [*whole, *images(index=1)] for image in batch}
    assert len(each) == 2 * 13, "each example in each epoch has a crop of its own"


def test_evaluation_is_not_augmented(tmp_path: Path) -> None:
    path = write(tmp_path / "x", [png(pixels(16, 12))])
    np.testing.assert_array_equal(read(program(path, augmentation=AUGMENTATION))[0], pixels(16, 12))


def test_raw_images_are_augmented_too(tmp_path: Path) -> None:
    images = np.repeat(pixels(16, 12)[np.newaxis], 40, axis=0)
    np.savez(tmp_path / "x.npz", image=images, label=np.arange(40))
    made = program(tmp_path / "x.npz", imageFormat="Raw", augmentation=["RandomFlip"])
    kinds = {image.tobytes() for image in read(made, Split.TRAIN, seed=1).values()}
    assert kinds == {images[0].tobytes(), images[0][:, ::-1].tobytes()}


@pytest.mark.long
def test_training_on_png_equals_training_on_raw_pixels(
    launch: "Launch", data: Path, config: dict[str, Any], tmp_path: Path
) -> None:
    """Two workers; the files have the same examples, in the same order."""
    for path in data.glob("*.tfrecord"):
        with tf.io.TFRecordWriter(str(tmp_path / path.name)) as writer:
            for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
                feature = tf.train.Example.FromString(record).features.feature
                image = np.frombuffer(feature["image"].bytes_list.value[0], np.uint8).reshape(config["imageShape"])
                label = feature["label"].int64_list.value[0] + 1
                writer.write(tfrecord.example({"image/encoded": png(image), "image/class/label": label}))
    files = {"train": f"{tmp_path}/train-*.tfrecord", "eval": f"{tmp_path}/eval-*.tfrecord"}
    found = []
    for name, changed in {"raw": {}, "png": {"data": files, "imageFormat": "Encoded", "labelOffset": 1}}.items():
        job = {"checkpoint": {"directory": str(tmp_path / name)}}
        trained = launch(2, config=config | changed, job=job)
        assert trained.wait() == [0, 0], trained.outputs
        evaluated = launch(2, config=config | changed, job=job | {"task": "Evaluate"})
        assert evaluated.wait() == [0, 0], evaluated.outputs
        report = evaluated.termination().evaluation
        assert report is not None
        found.append((trained.termination().metrics, report.metrics))
    assert found[0] == found[1]
