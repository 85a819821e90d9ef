# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and most of these tests do without
"""Formats of files: each gives the same columns, each example to one worker, and names what is wrong in it."""

import gzip
import itertools
import json
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.combinations import half_quick

from tfdist_trainer.data import csvs, idx, npz
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.data.files import FileAssignment, Pattern, Shard, assign_files, file_assignment
from tfdist_trainer.data.framing import masked_crc32c
from tfdist_trainer.errors import ConfigurationError, DataMalformedError, DataMissingError
from tfdist_trainer.programs.data_files import format_of

Array = npt.NDArray[Any]
COLUMNS = (
    DataColumn("id", "int64"),
    DataColumn("x", "float32"),
    DataColumn("kind", "string", choices=("b", "a")),
)
IMAGES = (DataColumn("image", "uint8", (2, 2, 1)), DataColumn("label", "int64", below=10))


def write_lines(path: Path, *lines: str) -> str:
    text = "\n".join(lines) + "\n"
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_csv_gives_columns_in_their_types_whatever_else_is_there(name: str, tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / name, "note,kind, x ,id", '"a, ""quoted"" note",a,1.5,7', '"two\nlines", b ,-2e3,8', ""
    )
    found = csvs.read(path, COLUMNS, BadRecords(skip=False))
    assert {key: value.tolist() for key, value in found.items()} == {"id": [7, 8], "x": [1.5, -2000], "kind": [1, 0]}
    assert [found[key].dtype for key in ("id", "x", "kind")] == [np.int64, np.float32, np.int64]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id,x"], "line 1: has no column 'kind'; it has ['id', 'x']"),
        ([], "line 1: has no column 'id'; the file is empty"),
        (["id,x,kind", "1,2,a", "1,2"], "line 3: has 2 fields, the header 3"),
        (["id,x,kind", "1,2,a", "1,2,a,b"], "line 3: has 4 fields, the header 3"),
        (["id,x,kind", "1,2,a", "1, ,a"], "line 3: 'x' is missing"),
        (["id,x,kind", "1,2,a", "1.5,2,a"], "line 3: 'id' is '1.5', expected a whole number"),
        (["id,x,kind", "1,2,a", "1,two,a"], "line 3: 'x' is 'two', expected a number"),
        (["id,x,kind", "1,2,a", "1,nan,a"], "line 3: 'x' is nan, expected a finite number"),
        (["id,x,kind", "1,2,a", "1,2,c"], "line 3: 'kind' is 'c', expected one of b, a"),
        (["id,x,kind", '"1,2,a'], "line 2: not readable as CSV: unexpected end of data"),
    ],
)
def test_a_bad_line_is_reported_by_number_or_skipped(lines: list[str], message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "x.csv", *lines)
    with pytest.raises(DataMalformedError) as caught:
        csvs.read(path, COLUMNS, BadRecords(skip=False))
    assert str(caught.value).startswith(f"{path}: {message}")
    if "line 3" in message:
        skipping = BadRecords(skip=True)
        assert csvs.read(path, COLUMNS, skipping)["id"].tolist() == [1]
        assert skipping.count == 1


def as_idx(array: Array) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx_images_find_their_file_of_labels(tmp_path: Path) -> None:
    images, labels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.array([0, 10, 2], np.uint8)
    name = str(tmp_path / "train-images-idx3-ubyte.gz")
    Path(name).write_bytes(gzip.compress(as_idx(images)))
    with pytest.raises(DataMissingError, match=r"there is no file .*train-labels-idx1-ubyte.gz with its labels"):
        idx.read_columns(name, IMAGES, BadRecords(skip=False))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(as_idx(labels))
    with pytest.raises(DataMalformedError, match="record 1: 'label' is 10, expected 0 to 9"):
        idx.read_columns(name, IMAGES, BadRecords(skip=False))
    found = idx.read_columns(name, IMAGES, BadRecords(skip=True))
    assert found["label"].tolist() == [0, 2]
    np.testing.assert_array_equal(found["image"], images[[0, 2], :, :, np.newaxis])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.npz", "npz"),
        ("a.csv", "csv"),
        ("a.csv.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.tsv.gz", "tsv"),
        ("pos/1.txt", "text"),
        ("pos/1.txt.gz", "text"),
        ("a.jsonl.gz", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.snappy.parquet", "parquet"),
        ("t10k-images-idx3-ubyte.gz", "idx"),
        ("a.idx", "idx"),
    ]
    + [(name, "tfrecord") for name in ("a.tfrecord", "a.tfrecord.gz", "part-00000-of-00008")],
)
def test_the_format_is_detected_from_the_name(name: str, kind: str) -> None:
    assert format_of(name) == kind


def test_data_that_is_partitioned_already_is_read_by_its_worker(tmp_path: Path) -> None:
    for worker in range(3):
        (tmp_path / f"part-{worker:03}.npz").write_bytes(b"")
    pattern, every = (Pattern(f"{tmp_path}/{name}", "data.train") for name in ("part-{worker:03}.npz", "*"))
    parts = [file_assignment([pattern], Shard(worker, 3)) for worker in range(3)]
    assert parts == [FileAssignment((f"{tmp_path}/part-{worker:03}.npz",), 1, 0) for worker in range(3)]
    of_chief = file_assignment([pattern], Shard(0, 1, workers=3))
    assert of_chief.files == tuple(f"{tmp_path}/part-{worker:03}.npz" for worker in range(3))
    with pytest.raises(ConfigurationError, match=r"data.train: .*part-002.npz is for worker 2, and the last of 2"):
        file_assignment([pattern], Shard(0, 1, workers=2))
    with pytest.raises(ConfigurationError, match=r"data.train: .*part-002.npz is for worker 2, and the last of 2"):
        file_assignment([pattern], Shard(0, 2))
    with pytest.raises(DataMissingError, match=r"no file matches '.*part-003.npz'"):
        file_assignment([pattern], Shard(3, 4))
    with pytest.raises(ConfigurationError, match=r"give \{worker\} in all patterns or in none"):
        file_assignment([pattern, every], Shard(0, 3))


@settings(max_examples=300)
@given(sizes=st.lists(st.integers(0, 12), min_size=1, max_size=45), pipelines=st.integers(1, 7))
def test_every_record_of_any_files_has_one_reader_and_shares_are_even(sizes: list[int], pipelines: int) -> None:
    names = [f"f{number:02d}" for number in range(len(sizes))]
    read: Counter[tuple[str, int]] = Counter()
    files = []
    for index in range(pipelines):
        part = assign_files(names, Shard(index, pipelines))
        records = [(name, k) for name in part.files for k in range(sizes[names.index(name)])]
        read.update(records[part.offset :: part.stride])
        files.append(len(part.files))
    assert read == Counter((name, k) for name, size in zip(names, sizes, strict=True) for k in range(size))
    assert max(files) <= min(files) * 1.1 + 1


@settings(max_examples=200)
@given(lengths=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_the_checksum_of_lengths_is_that_of_its_definition(lengths: list[int]) -> None:
    def slow(octets: bytes) -> int:
        crc = 0xFFFFFFFF
        for octet in octets:
            crc ^= octet
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        crc ^= 0xFFFFFFFF
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    assert masked_crc32c(np.array(lengths, np.uint64)).tolist() == [slow(struct.pack("<Q", n)) for n in lengths]


def write(kind: str, path: Path, ids: Array) -> None:
    """Write examples that carry their number; in `bad` ones the kind is not one of the choices."""
    from tfdist_trainer.data import tfrecord

    columns: dict[str, Array] = {"id": ids, "x": ids / 2, "kind": np.where(ids % 5 == 4, "bad", "a")}
    if kind in {"csv", "tsv"}:
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
        write_lines(path, *(line.replace(",", "\t") if kind == "tsv" else line for line in lines))
    elif kind == "jsonl":
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        write_lines(path, *(json.dumps(dict(zip(columns, row, strict=True))) for row in rows))
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), str(path), row_group_size=5)
    elif kind == "npz":
        npz.save(str(path), **columns)
    else:
        tfrecord.write(str(path), columns, gzip=path.suffix == ".gz")


@pytest.mark.trainer
@pytest.mark.parametrize(
    ("ending", "share"),
    half_quick(["csv", "tsv", "jsonl", "parquet", "npz", "tfrecord", "tfrecord.gz"], ["by file", "by record"]),
)
def test_every_good_record_is_read_once_and_bad_ones_are_counted_once(ending: str, share: str, tmp_path: Path) -> None:
    from tfdist_trainer.data.source import ReadOptions, open_source

    sizes, pipelines = ([7, 0, 16], 3) if share == "by file" else ([7, 6, 10], 2)
    kind, ids = ending.partition(".")[0], np.arange(sum(sizes))
    names = [str(tmp_path / f"{number}.{ending}") for number in range(len(sizes))]
    for name, end, size in zip(names, np.cumsum(sizes), sizes, strict=True):
        write(kind, Path(name), ids[end - size : end])
    parts = [assign_files(names, Shard(index, pipelines)) for index in range(pipelines)]
    base: dict[str, Any] = {"columns": COLUMNS, "format": kind, "gzip": ending.endswith("gz"), "skip_bad": True}
    ways: list[dict[str, Any]] = [{}, {"interleave": 2}, {"cache": True}]
    for extra in ways[: 3 if kind == "tfrecord" else 1]:
        sources = [open_source(part, ReadOptions(**base, **extra)) for part in parts]
        found = [batch["id"].tolist() for source in sources for batch in source.batches()]
        assert sorted(itertools.chain(*found)) == [k for k in ids if k % 5 != 4]
        assert sum(source.count for source in sources) == sum(map(len, found))
        assert sum(source.skipped for source in sources) == sum(ids % 5 == 4)


@pytest.mark.trainer
@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet", "file"])
def test_image_models_map_images_to_logits(model: str, tmp_path: Path) -> None:
    from tfdist_trainer.programs import choose

    config: dict[str, Any] = {"data": {}, "imageShape": [8, 8, 3], "classes": 5, "resnetBlocks": 1}
    if model == "file":
        model = str(tmp_path / "saved.keras")
        choose("image_classification", config).create().model().save(model)
        with pytest.raises(ConfigurationError, match=r"training.config.model: .* expected from"):
            choose("image_classification", config | {"model": model, "classes": 6}).create().model()
    made = choose("image_classification", config | {"model": model, "dropout": 0.1}).create().model()
    assert made(np.zeros([2, 8, 8, 3], np.uint8)).shape == (2, 5)


@pytest.mark.trainer
def test_a_rate_warms_up_stays_and_falls_by_a_cosine() -> None:
    from tfdist_trainer.programs.optimizers import WarmUpAndDecay

    schedule = WarmUpAndDecay(0.8, 4, 14)
    assert [float(schedule(step)) for step in (0, 1, 3, 4, 9, 14, 99)] == pytest.approx(
        [0.2, 0.4, 0.8, 0.8, 0.4, 0, 0], abs=1e-6
    )
    assert float(WarmUpAndDecay(0.8, 0, None)(7)) == pytest.approx(0.8)
