# ruff: noqa: PLC0415  TensorFlow takes seconds to import
"""Uncompressed TFRecord files are read by index: one order for all members, and a resume that reads nothing twice."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist_trainer.data.checksums import combined_crc32c
from tfdist_trainer.data.files import Shard, Split

pytestmark = pytest.mark.trainer

BATCH = 4
CONFIG = {"numeric": ["x"], "label": "y"}


def write(folder: Path, *sizes: int) -> None:
    """Write files of `sizes` records, numbered through all files."""
    from tfdist_trainer.data import tfrecord

    numbers = np.split(np.arange(float(sum(sizes)), dtype=np.float32), np.cumsum(sizes)[:-1])
    for part, values in enumerate(numbers):
        tfrecord.write(str(folder / f"part-{part}.tfrecord"), {"x": values, "y": values})


def opened(folder: Path, **data: Any) -> Any:
    from tfdist_trainer.programs import choose

    pattern = f"{folder}/part-*" if "train" not in data else data.pop("train")
    program: Any = choose("tabular", {**CONFIG, "data": {"train": pattern, **data}}).create()
    return program.examples_by_index(Split.TRAIN, Shard(0, 1))


def global_batches(
    examples: Any, members: int, *, consumed: int = 0, seed: int | None = 1, epochs: range = range(1)
) -> list[list[int]]:
    """Return the numbers of the valid examples of all members in each step."""
    from tfdist_trainer.data.batches import ReplicaShare
    from tfdist_trainer.data.pipeline import EpochRange, steps_needed, stream

    whole = steps_needed([examples.count], BATCH, members)
    steps = whole * (len(epochs) - 1) + steps_needed([examples.count - consumed], BATCH, members)
    parts = []
    for rank in range(members):
        share = ReplicaShare(rank, 1, members)
        batches = stream(
            examples, EpochRange(whole, epochs, consumed=consumed, share=share), batch_size=BATCH, seed=seed
        )
        parts.append([batch.labels.numpy()[batch.valid_mask.numpy()] for batch in batches.take(steps)])
    return [[int(number) for part in step for number in part] for step in zip(*parts, strict=True)]


@pytest.mark.parametrize("members", [1, 2, 3])
def test_uneven_files_give_a_full_global_batch_in_every_step_but_the_last(members: int, tmp_path: Path) -> None:
    write(tmp_path, 2, 0, 61)
    steps = global_batches(opened(tmp_path), members)
    assert {len(step) for step in steps[:-1]} == {BATCH * members}
    assert sorted(itertools.chain(*steps)) == list(range(63))


def test_the_order_depends_on_seed_and_epoch_and_not_on_the_number_of_members(tmp_path: Path) -> None:
    write(tmp_path, 20, 43)
    examples = opened(tmp_path)
    orders = [
        list(itertools.chain(*global_batches(examples, members, seed=seed, epochs=epochs)))
        for members, seed, epochs in [(1, 1, range(1)), (3, 1, range(1)), (1, 2, range(1)), (1, 1, range(1, 2))]
    ]
    assert orders[0] == orders[1]
    assert len({tuple(order) for order in orders}) == 3
    assert list(itertools.chain(*global_batches(examples, 2, seed=None))) == list(range(63))


def test_an_epoch_continued_by_other_numbers_of_members_has_every_example_once(tmp_path: Path) -> None:
    write(tmp_path, 20, 43)
    examples, seen = opened(tmp_path), list[int]()
    for members, steps in [(2, 3), (3, 2), (1, 100)]:
        for step in global_batches(examples, members, consumed=len(seen))[:steps]:
            seen += step
    assert sorted(seen) == list(range(63))


def test_a_resume_reads_only_what_follows(tmp_path: Path) -> None:
    write(tmp_path, 20, 40)
    examples = opened(tmp_path)
    whole = global_batches(opened(tmp_path), 2, seed=None)
    # Given a file that can no longer be read, all of whose records were used before the restart
    (tmp_path / "part-0.tfrecord").unlink()
    assert global_batches(examples, 2, consumed=24, seed=None) == whole[3:]


def test_a_record_that_is_changed_after_counting_fails_the_read(tmp_path: Path) -> None:
    from tfdist_trainer.data.framing import frames
    from tfdist_trainer.data.record_reader import RecordReader

    write(tmp_path, 9)
    path = tmp_path / "part-0.tfrecord"
    reader, content = RecordReader([str(path)], [[frames(str(path), gzip=False)]]), bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    assert len(reader.read(np.arange(8))) == 8
    with pytest.raises(ValueError, match="the checksum of a record is wrong"):
        reader.read(np.arange(9))
    path.write_bytes(content[:-30])
    with pytest.raises(ValueError, match=r"part-0\.tfrecord: is shorter than when its records were counted"):
        reader.read(np.arange(9))


def test_records_of_any_length_have_the_checksum_that_tensorflow_has_written(tmp_path: Path) -> None:
    import tensorflow as tf

    from tfdist_trainer.data.framing import frames
    from tfdist_trainer.data.record_reader import RecordReader

    random = np.random.default_rng(3)
    records = [random.bytes(size) for size in (0, 1, 3, 4, 5, 511, 512, 513, 516, 1025, 5000)]
    name = str(tmp_path / "x")
    with tf.io.TFRecordWriter(name) as writer:
        for record in records:
            writer.write(record)
    order = random.permutation(len(records))
    assert list(RecordReader([name], [[frames(name, gzip=False)]]).read(order)) == [records[index] for index in order]


def test_the_checksum_is_that_of_the_published_example() -> None:
    # RFC 3720, B.4: 32 bytes of zeros, and of ones.
    octets = np.repeat(np.array([0, 0xFF], np.uint8), 32)
    assert [combined_crc32c([part]) for part in (octets[:32], octets[32:])] == [0x8A9136AA, 0x62A8AB43]
    assert combined_crc32c([octets[:32], octets[32:]]) == 0x8A9136AA ^ 0x62A8AB43


def test_an_example_is_augmented_alike_for_any_number_of_members(tmp_path: Path) -> None:
    from tfdist_trainer.data import tfrecord
    from tfdist_trainer.data.batches import ReplicaShare
    from tfdist_trainer.data.pipeline import EpochRange, stream
    from tfdist_trainer.programs import choose

    image = np.random.default_rng(1).integers(0, 256, (6, 6, 1)).astype(np.uint8)
    tfrecord.write(str(tmp_path / "x.tfrecord"), {"image": np.stack([image] * 8), "label": np.arange(8)})
    config = {"data": {"train": f"{tmp_path}/*"}, "imageShape": [6, 6, 1], "augmentation": ["RandomResizedCrop"]}
    examples: Any = choose("image_classification", config).create().examples_by_index(Split.TRAIN, Shard(0, 1))  # type: ignore[attr-defined]

    def augmented(members: int, size: int, seed: int | None = 3) -> Any:
        shares = [ReplicaShare(rank, 1, members) for rank in range(members)]
        streams = [
            stream(examples, EpochRange(1, range(1), share=share), batch_size=size, seed=seed) for share in shares
        ]
        return np.concatenate([next(iter(batches)).features.numpy() for batches in streams])

    one = augmented(1, 8)
    np.testing.assert_array_equal(augmented(2, 4), one)
    assert len(np.unique(one, axis=0)) > 1, "equal images are changed differently"
    assert not np.array_equal(augmented(1, 8, seed=4), one)


@pytest.mark.parametrize("data", [{"cache": True}, {"onBadRecord": "Skip"}, {"compression": "GZIP"}])
def test_other_ways_of_reading_stay_by_file(data: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, 3)
    assert opened(tmp_path, **data) is None


def test_more_records_than_a_worker_can_index_are_read_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist_trainer.programs.from_files.MAX_INDEXED_RECORDS", 9)
    write(tmp_path, 5, 5)
    assert opened(tmp_path) is None


def test_partitioned_files_stay_with_their_workers(tmp_path: Path) -> None:
    write(tmp_path, 3)
    assert opened(tmp_path, train=f"{tmp_path}/part-{{worker}}.tfrecord") is None
