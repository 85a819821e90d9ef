# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and most of these tests do without
"""Files, formats and pipelines: each worker reads its examples, and each example is read once."""

import gzip
import itertools
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tfdist_trainer.data import fashion_mnist, idx, npz
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.data.files import Pattern, Shard, Split, assign_files, expand
from tfdist_trainer.errors import ConfigurationError, DataMalformedError, DataMissingError

COLUMNS = (DataColumn("image", "uint8", (2, 2, 1)), DataColumn("label", "int64", below=10))


def strictly() -> BadRecords:
    return BadRecords(skip=False)


def numbered(count: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return images that carry their own number."""
    numbers = np.arange(count)
    images = np.zeros((count, 2, 2, 1), np.uint8)
    images[:, 0, 0, 0], images[:, 0, 1, 0] = numbers // 256, numbers % 256
    return images, numbers % 10


def number_of(image: npt.NDArray[np.uint8]) -> int:
    return int(image[0, 0, 0]) * 256 + int(image[0, 1, 0])


@pytest.mark.parametrize(("files", "pipelines"), list(itertools.product([1, 2, 3, 7, 8, 40], [1, 2, 3, 4])))
def test_every_record_is_read_by_exactly_one_pipeline(files: int, pipelines: int) -> None:
    names = [f"f{number:02d}" for number in range(files)]
    records = [(name, number) for name in names for number in range(5)]
    read: list[tuple[str, int]] = []
    for index in range(pipelines):
        part = assign_files(names, Shard(index, pipelines))
        mine = [record for record in records if record[0] in part.files]
        read += mine[part.offset :: part.stride]
    assert sorted(read) == records


def test_missing_files_are_reported_by_field_and_pattern(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    first, every, other = (Pattern(f"{tmp_path}/{name}", "data.train") for name in ("a", "*", "b*"))
    assert expand([first, every]) == (f"{tmp_path}/a",)
    with pytest.raises(DataMissingError, match=r"data.train: no file matches .*/b\*"):
        expand([first, other])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"image": np.zeros((3, 2, 2, 1), np.uint8)}, "no array 'label'"),
        ({"image": np.zeros((3, 2, 2, 1)), "label": np.zeros(3, int)}, r"'image' is float64\[3, 2, 2, 1\]"),
        (
            {"image": np.zeros((3, 2, 3, 1), np.uint8), "label": np.zeros(3, int)},
            r"expected uint8\[examples, 2",
        ),
        ({"image": np.zeros((3, 2, 2), np.uint8), "label": np.zeros(2, int)}, "different lengths"),
        (
            {"image": np.zeros((3, 2, 2), np.uint8), "label": np.array([0, 9, 10])},
            "record 2: 'label' is 10, expected 0 to 9",
        ),
    ],
)
def test_a_malformed_npz_is_reported_by_name(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(DataMalformedError, match=f"x.npz: .*{message}"):
        npz.read(str(tmp_path / "x.npz"), COLUMNS, strictly())


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 torn"])
def test_a_file_that_is_no_npz_is_reported_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DataMalformedError, match=r"x\.npz: not a readable"):
        npz.read(str(tmp_path / "x.npz"), COLUMNS, strictly())


def as_idx(array: npt.NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_are_read_plain_or_compressed(packed: bool, tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "x").write_bytes(gzip.compress(as_idx(array)) if packed else as_idx(array))
    np.testing.assert_array_equal(idx.read(str(tmp_path / "x")), array)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\x01\x02\x03\x04", "starts with 01020304"),
        (b"\0\0\x0d\x01\0\0\0\x01", "type 0x0d"),
        (b"\0\0\x08\x03\0\0\0\x01", "3 axes is cut off"),
        (b"\0\0\x08\x01\0\0\0\x03ab", "has 2 bytes of elements, its header requires 3 = 3"),
        (gzip.compress(b"\0\0\x08\x01", mtime=0)[:-4], "damaged gzip"),
    ],
)
def test_a_malformed_idx_file_is_reported_by_name(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataMalformedError, match=f"/x: .*{message}"):
        idx.read(str(tmp_path / "x"))


def test_the_converter_keeps_every_example(tmp_path: Path) -> None:
    images, labels = numbered(23)
    for prefix, count in (("train", 23), ("t10k", 5)):
        (tmp_path / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(as_idx(images[:count, :, :, 0])))
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(as_idx(labels[:count].astype(np.uint8)))
    command = ["--source", str(tmp_path), "--out", str(tmp_path / "out"), "--format", "npz", "--shards", "4"]
    assert fashion_mnist.main(command) == 0
    files = sorted(str(path) for path in (tmp_path / "out").glob("train-*.npz"))
    assert [Path(name).name for name in files] == [f"train-{shard:05d}-of-00004.npz" for shard in range(4)]
    found = [npz.read(name, COLUMNS, strictly()) for name in files]
    read_images, read_labels = (np.concatenate([part[key] for part in found]) for key in ("image", "label"))
    order = np.argsort([number_of(image) for image in read_images])
    np.testing.assert_array_equal(read_images[order], images)
    np.testing.assert_array_equal(read_labels[order], labels)
    assert fashion_mnist.main(["--source", str(tmp_path / "none"), "--out", str(tmp_path / "out")]) == 66


def numbers(part: Any, seed: int | None, steps: int, epochs: range, skip: int = 0) -> list[list[int]]:
    """Return the numbers of the examples present in each batch of size 4 of one pipeline."""
    from tfdist_trainer.data.pipeline import EpochRange, stream

    found = []
    batches = stream(part, EpochRange(steps, epochs, skip), batch_size=4, seed=seed)
    for batch in batches.take(steps * len(epochs) - skip):
        assert batch.features.shape == (4, 2, 2, 1)
        np.testing.assert_array_equal(batch.weights > 0, batch.valid_mask)
        found.append([number_of(image) for image in batch.features.numpy()[batch.valid_mask.numpy()]])
    return found


@pytest.mark.trainer
@pytest.mark.parametrize(
    "kind", ["npz", *(pytest.param(k, marks=pytest.mark.long) for k in ("tfrecord.gz", "tfrecord"))]
)
@pytest.mark.parametrize(
    ("sizes", "pipelines"),
    [
        ([7, 0, 16], 3),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (([7, 6, 10], 2), ([23], 1), ([1], 3))),
    ],
)
def test_an_epoch_has_every_example_once_also_after_a_restart(
    kind: str, sizes: list[int], pipelines: int, tmp_path: Path
) -> None:
    import tensorflow as tf

    from tfdist_trainer.data import tfrecord
    from tfdist_trainer.data.pipeline import steps_needed
    from tfdist_trainer.programs import choose

    images, labels = numbered(sum(sizes))
    ends = np.cumsum(sizes)
    for shard, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        chosen = slice(end - size, end)
        name = str(tmp_path / f"{shard}.{kind}")
        if kind == "npz":
            npz.save(name, image=images[chosen], label=labels[chosen])
        else:
            arrays: dict[str, npt.NDArray[Any]] = {"image": images[chosen], "label": labels[chosen]}
            tfrecord.write(name, arrays, gzip=kind.endswith("gz"))
    config = {"data": {"train": f"{tmp_path}/*"}, "imageShape": [2, 2, 1], "shuffleBuffer": 5}
    program = choose("image_classification", config).create()
    parts = [program.examples(Split.TRAIN, Shard(index, pipelines)) for index in range(pipelines)]
    counts = [part.count for part in parts]
    assert sum(counts) == sum(sizes)
    steps = steps_needed(counts, 4, 1)
    tf.random.set_seed(1)
    for seed in (None, 0, 1):
        both = [numbers(part, seed, steps, range(2)) for part in parts]
        for epoch in range(2):
            ids = itertools.chain(*(batch for whole in both for batch in whole[epoch * steps : (epoch + 1) * steps]))
            assert sorted(ids) == list(range(sum(sizes)))
        for part, whole in zip(parts, both, strict=True):
            assert numbers(part, seed, steps, range(2), skip=1) == whole[1:]
            assert numbers(part, seed, steps, range(1, 2)) == whole[steps:]
        if sum(sizes) > 1:
            same = all(whole[:steps] == whole[steps:] for whole in both)
            assert same == (seed is None), "each epoch has an order of its own"


def record(image: int, label: Any) -> bytes:
    from tfdist_trainer.data import tfrecord

    return tfrecord.example({"image": np.zeros(image, np.uint8), "label": label})


def write_records(path: Path, records: list[bytes]) -> str:
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for item in records:
            writer.write(item)
    return str(path)


@pytest.mark.trainer
def test_a_bad_record_is_reported_by_file_and_number(tmp_path: Path) -> None:
    from tfdist_trainer.data import tfrecord

    good = [record(4, 1)] * 3
    cases = {
        "short": (record(3, 1), "record 3: 'image' has 3 bytes, expected 4"),
        "label": (record(4, 10), "record 3: 'label' is 10, expected 0 to 9"),
        "kind": (record(4, 1.5), "record 3: 'label' holds numbers, expected integers"),
        "many": (record(4, [1, 2]), "record 3: 'label' has 2 values, expected 1"),
        "empty": (b"", "record 3: not an Example with 'image' and 'label'"),
        "noise": (b"\xff\xfe", "record 3: not an Example with 'image' and 'label'"),
    }
    for name, (bad, message) in cases.items():
        path = write_records(tmp_path / name, [*good, bad, *good])
        assert tfrecord.count(path, gzip=False) == 7, "counting does not read records"
        with pytest.raises(DataMalformedError, match=f"{name}: {message}"):
            tfrecord.check(path, COLUMNS, strictly(), gzip=False)
        skipping = BadRecords(skip=True)
        assert tfrecord.check(path, COLUMNS, skipping, gzip=False) == (7, (3,))
        assert skipping.count == 1
    (tmp_path / "text").write_text("no records here, but more than twelve bytes")
    for gzipped in (False, True):
        with pytest.raises(DataMalformedError, match="text: damaged or not a TFRecord file"):
            tfrecord.count(str(tmp_path / "text"), gzip=gzipped)


@pytest.mark.trainer
@pytest.mark.parametrize("gzipped", [False, True])
def test_a_truncated_file_is_reported_with_the_records_before(gzipped: bool, tmp_path: Path) -> None:
    from tfdist_trainer.data import tfrecord

    images, labels = numbered(50)
    path = tmp_path / "x"
    tfrecord.write(str(path), {"image": images, "label": labels}, gzip=gzipped)
    assert tfrecord.count(str(path), gzip=gzipped) == 50
    content = path.read_bytes()
    for size in (len(content) - 3, len(content) // 2 + 1, 5):
        path.write_bytes(content[:size])
        with pytest.raises(DataMalformedError, match=r"x: damaged or not a TFRecord file.*after \d+ records"):
            tfrecord.count(str(path), gzip=gzipped)


@pytest.mark.trainer
def test_damaged_data_is_found_by_reading_and_a_damaged_length_by_counting(tmp_path: Path) -> None:
    from tfdist_trainer.data import tfrecord

    records = [record(4, 1)] * 5
    size = len(records[0]) + 16
    path = Path(write_records(tmp_path / "x", records))
    content = bytearray(path.read_bytes())
    content[3 * size + 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataMalformedError, match=r"after 3 records: the length's checksum is wrong"):
        tfrecord.count(str(path), gzip=False)
    content[3 * size + 1] ^= 1
    content[3 * size + 20] ^= 1
    path.write_bytes(content)
    assert tfrecord.count(str(path), gzip=False) == 5
    with pytest.raises(DataMalformedError, match=r"x: record 3: damaged: its checksum is wrong"):
        tfrecord.check(str(path), COLUMNS, strictly(), gzip=False)


@pytest.mark.trainer
def test_files_of_two_formats_under_one_pattern_are_rejected(tmp_path: Path) -> None:
    from tfdist_trainer.programs import choose

    for name in ("a.npz", "b.tfrecord"):
        (tmp_path / name).write_bytes(b"")
    program = choose("image_classification", {"data": {"train": f"{tmp_path}/*"}}).create()
    with pytest.raises(ConfigurationError, match=r"training\.config\.data\.train: matches files of different formats"):
        program.examples(Split.TRAIN, Shard(0, 1))
