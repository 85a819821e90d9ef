# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and most of these tests do without
"""`onBadRecord`: one bad record costs one record, and an error that all records share is never skipped."""

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist_trainer.data import csvs, npz
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.data.files import FileAssignment
from tfdist_trainer.errors import ColumnAbsentError, DataMalformedError

COLUMNS = (DataColumn("text", "string"), DataColumn("label", "int64", below=2))
GOOD = [b"text,label", b"a,0", b"b,1"]

BAD_RECORDS: dict[str, tuple[list[bytes], str]] = {
    "a byte that is not UTF-8": ([b"caf\xe9,0"], "line 4: 'text' has the byte 0xe9, which is not UTF-8; convert"),
    "such a byte in the second line of a text": ([b'"one\ntw\xf6",0'], "line 5: 'text' has the byte 0xf6"),
    "a character that is cut off": ([b"\xe2\x82,0"], "line 4: 'text' has the byte 0xe2"),
    "text after a closing quote": ([b'"a" b,0'], "line 4: not readable as CSV: ',' expected after '\"'"),
    "a quote that is never closed": ([b'"a,0'], "line 4: not readable as CSV: unexpected end of data; a double quote"),
    "a document as label": (
        [b"a," + b"9" * 200_000],
        "line 4: 'label' is '" + "9" * 99 + "... (200002 characters), expected a whole number",
    ),
    "fields that are too many": ([b"a,b,0"], "line 4: has 3 fields, the header 2"),
    "a field that is missing": ([b"a"], "line 4: has 1 field, the header 2"),
    "a block of zero bytes, as a crash leaves": ([b"\0" * 4096], "line 4: has 1 field, the header 2"),
    "a zero byte in a number": ([b"a,\x001"], "line 4: 'label' is '\\x001', expected a whole number"),
}


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
@pytest.mark.parametrize(("bad", "message"), BAD_RECORDS.values(), ids=BAD_RECORDS.keys())
def test_a_bad_record_of_csv_is_reported_by_its_line_and_costs_no_other(
    bad: list[bytes], message: str, name: str, tmp_path: Path
) -> None:
    content = b"\n".join([*GOOD, *bad, *(b"after%d,1" % number for number in range(500)), b""])
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    with pytest.raises(DataMalformedError) as caught:
        csvs.read(str(path), COLUMNS, BadRecords(skip=False))
    assert str(caught.value).startswith(f"{path}: {message}")
    skipping = BadRecords(skip=True)
    found = csvs.read(str(path), COLUMNS, skipping)
    assert found["text"].tolist() == ["a", "b", *(f"after{number}" for number in range(500))]
    assert skipping.count == 1
    assert skipping.first == str(caught.value)


@pytest.mark.parametrize("skip", [False, True])
def test_a_text_of_any_length_is_read_and_takes_no_space_in_other_rows(skip: bool, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["text,label", "a,0", f"{'word ' * 100_000},1", *["b,0"] * 1000]), encoding="utf-8")
    bad = BadRecords(skip=skip)
    found = csvs.read(str(path), COLUMNS, bad)
    assert (len(found["text"]), bad.count) == (1002, 0)
    assert found["text"][1] == ("word " * 100_000).strip()
    assert found["text"].dtype == object, "an array of str has the width of the longest text in each row"


def test_a_byte_that_is_not_utf8_in_a_column_that_is_not_read_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"author,text,label\nRen\xe9,a,0\n")
    assert csvs.read(str(path), COLUMNS, BadRecords(skip=False))["text"].tolist() == ["a"]


def test_csv_is_decompressed_by_its_content_and_other_formats_are_named(tmp_path: Path) -> None:
    path, content = tmp_path / "x.csv", b"\n".join(GOOD)
    path.write_bytes(gzip.compress(content))
    assert csvs.read(str(path), COLUMNS, BadRecords(skip=False))["label"].tolist() == [0, 1]
    (tmp_path / "y.csv.gz").write_bytes(content)
    assert csvs.read(str(tmp_path / "y.csv.gz"), COLUMNS, BadRecords(skip=False))["label"].tolist() == [0, 1]
    path.write_bytes(b"\xff\xfe" + content.decode().encode("utf-16-le"))
    with pytest.raises(DataMalformedError, match=r"x.csv: .*begins like a UTF-16 text file; convert it to UTF-8"):
        csvs.read(str(path), COLUMNS, BadRecords(skip=False))


GOOD_TEXT = "text,label\na,0\nb,1\n"
ZIP = b"PK\x03\x04\x14\x00\x00\x00" + b"x" * 60
OTHER_FILES: dict[str, tuple[bytes, str]] = {
    "ZIP": (ZIP, "it begins like a ZIP or .npz file; set data.format, or convert it to CSV"),
    "ZIP in GZIP": (gzip.compress(ZIP), "its decompressed content begins like a ZIP or .npz file"),
    "GZIP in GZIP": (gzip.compress(gzip.compress(b"a,b")), "its decompressed content begins like a GZIP file"),
    "UTF-16 in GZIP": (
        gzip.compress(GOOD_TEXT.encode("utf-16")),
        "its decompressed content begins like a UTF-16 text file; convert it to UTF-8",
    ),
    "UTF-16 without a mark": (GOOD_TEXT.encode("utf-16-le"), "; it seems to be UTF-16 text: convert it to UTF-8"),
    "semicolons": (GOOD_TEXT.replace(",", ";").encode(), "separated by ';': separate them by commas"),
    "tabs": (GOOD_TEXT.replace(",", "\t").encode(), "separated by '\\t': set data.format: tsv"),
    "a pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 5\n",
        "fetch the file with git lfs pull",
    ),
    "nothing": (b"", "line 1: has no column 'text'; the file is empty"),
}


@pytest.mark.parametrize(("content", "message"), OTHER_FILES.values(), ids=OTHER_FILES.keys())
def test_a_file_that_is_no_csv_with_commas_is_recognized_by_its_content(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(DataMalformedError) as caught:
        csvs.read(str(path), COLUMNS, BadRecords(skip=False))
    assert message in str(caught.value)


LONG = "word\n" * 20_000
READABLE: dict[str, tuple[bytes, list[str]]] = {
    "lines that end with CR": (b"text,label\ra,0\rb,1\r", ["a", "b"]),
    "a text with line ends over several blocks": (f'text,label\n"{LONG}",0\nb,1\n'.encode(), [LONG.strip(), "b"]),
    "an empty GZIP member before the others": (gzip.compress(b"") + gzip.compress(GOOD_TEXT.encode()), ["a", "b"]),
    "a GZIP file padded with zero bytes": (gzip.compress(GOOD_TEXT.encode()) + bytes(512), ["a", "b"]),
    "no end of the last line": (GOOD_TEXT.rstrip().encode(), ["a", "b"]),
}


@pytest.mark.parametrize(("content", "texts"), READABLE.values(), ids=READABLE.keys())
def test_unusual_files_are_read(content: bytes, texts: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    assert csvs.read(str(path), COLUMNS, BadRecords(skip=False))["text"].tolist() == texts


def test_the_records_before_damaged_compression_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    lines = [b"text,label", *(b"%d,%d" % (number, number % 2) for number in range(50_000))]
    content = gzip.compress(b"\n".join(lines))
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataMalformedError, match=r"after line \d+: the rest of the file is not readable"):
        csvs.read(str(path), COLUMNS, BadRecords(skip=False))
    skipping = BadRecords(skip=True)
    found = csvs.read(str(path), COLUMNS, skipping)["text"].tolist()
    assert found == [str(number) for number in range(len(found))]
    assert len(found) > 10_000
    assert skipping.count == 1


def write(path: Path, count: int = 3, **changed: Any) -> str:
    """Write `count` records with the features text and label, in the format of the name."""
    values: dict[str, Any] = {"text": np.array(["a"] * count), "label": np.arange(count) % 2} | changed
    arrays = {name: value for name, value in values.items() if value is not None}
    if path.suffix == ".csv":
        rows = [",".join(arrays), *(",".join(map(str, row)) for row in zip(*arrays.values(), strict=True))]
        path.write_text("\n".join(rows))
    elif path.suffix == ".npz":
        npz.save(str(path), **arrays)
    else:
        from tfdist_trainer.data import tfrecord

        tfrecord.write(str(path), arrays, gzip=path.suffix == ".gz")
    return str(path)


def open_skipping(name: str, gzipped: bool = False) -> Any:
    from tfdist_trainer.data.source import ReadOptions, open_source

    kind: Any = {"csv": "csv", "npz": "npz"}.get(name.rpartition(".")[2], "tfrecord")
    return open_source(FileAssignment((name,), 1, 0), ReadOptions(COLUMNS, kind, gzip=gzipped, skip_bad=True))


@pytest.mark.trainer
@pytest.mark.parametrize("name", ["x.csv", "x.npz", "x.tfrecord"])
def test_a_column_that_no_record_of_a_file_has_is_not_skipped(name: str, tmp_path: Path) -> None:
    path = write(tmp_path / name, label=None, target=np.zeros(3, int))
    with pytest.raises(ColumnAbsentError, match=r"'label'; .*\['t.*', 't.*'\]"):
        open_skipping(path)


@pytest.mark.trainer
def test_a_record_without_a_feature_is_skipped_and_its_features_are_named(tmp_path: Path) -> None:
    import tensorflow as tf

    from tfdist_trainer.data import tfrecord

    path = str(tmp_path / "x.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(tfrecord.example({"text": "a", "lable": 1}))
        writer.write(tfrecord.example({"text": "a", "label": 1}))
    with pytest.raises(DataMalformedError, match=r"record 0: .*it has no 'label'; it has \['lable', 'text'\]"):
        tfrecord.check(path, COLUMNS, BadRecords(skip=False), gzip=False)
    source = open_skipping(path)
    assert (source.count, source.skipped) == (1, 1)


@pytest.mark.trainer
@pytest.mark.parametrize("name", ["x.csv", "x.npz", "x.tfrecord"])
@pytest.mark.parametrize("has_first", [True, False])
def test_the_first_reason_is_the_message_if_all_records_of_all_members_are_skipped(
    name: str, has_first: bool, tmp_path: Path
) -> None:
    from tfdist_trainer.data.pipeline import ExampleSource
    from tfdist_trainer.input_pipeline import example_counts

    class Gang:
        """Two members, of which the other one has no file, or has skipped two records."""

        def all_gather(self, value: float) -> list[float]:
            return [value, 0.0]

        def all_reduce_sum(self, values: list[float]) -> list[float]:
            return [values[0] + (0 if has_first else 2)]

    gang: Any = Gang()
    if has_first:
        source = open_skipping(write(tmp_path / name, label=np.array([7, 8, 9])))
        expected = (
            r"train: onBadRecord: Skip has skipped all 3 records; the first: .*x\..*'label' is 7, expected 0 to 1"
        )
    else:
        source = ExampleSource(count=0, batches=lambda _: None, decode=lambda: ())
        expected = r"train: onBadRecord: Skip has skipped all 2 records; the first: see the messages of the other"
    with pytest.raises(DataMalformedError, match=expected):
        example_counts(gang, source, "train")


WRONG_COMPRESSION: dict[str, tuple[bool, Any, str]] = {
    "GZIP without its suffix": (False, gzip.compress, "begins like a GZIP file: set data.compression: GZIP"),
    "ZLIB": (False, zlib.compress, "begins like a ZLIB file, which is not supported"),
    "uncompressed with the suffix": (True, bytes, "is not compressed: remove .gz from its name, or set data.comp"),
    "compressed twice": (
        True,
        lambda content: gzip.compress(gzip.compress(content)),
        "decompressed content begins like a GZIP file",
    ),
    "CSV": (False, lambda _: b"text,label\n" + b"a,0\n" * 20, "text file: if it is CSV, set data.format: csv"),
    "TSV": (False, lambda _: b"text\tlabel\n" + b"a\t0\n" * 20, "text file: if it is TSV, set data.format: tsv"),
    "JSON lines": (False, lambda _: b'{"text": "a", "label": 0}\n' * 20, "if it is JSON lines, set data.format: jsonl"),
    "an image": (False, lambda _: b"\x89PNG\r\n\x1a\n" + bytes(60), "begins like a PNG file: set data.format"),
}


@pytest.mark.trainer
@pytest.mark.parametrize(("gzipped", "change", "message"), WRONG_COMPRESSION.values(), ids=WRONG_COMPRESSION.keys())
def test_a_file_that_is_no_tfrecord_is_recognized_by_its_content(
    gzipped: bool, change: Any, message: str, tmp_path: Path
) -> None:
    from tfdist_trainer.data import tfrecord

    path = tmp_path / "x"
    write(path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataMalformedError, match=message):
        tfrecord.count(str(path), gzip=gzipped)
    skipping = BadRecords(skip=True)
    assert tfrecord.check(str(path), COLUMNS, skipping, gzip=gzipped) == (0, ())
    assert message in str(skipping.first)


@pytest.mark.trainer
@pytest.mark.parametrize(("start", "kind"), [(b"\x89PNG\r\n\x1a\n", "PNG"), (b"\xff\xd8\xff\xe0", "JPEG")])
def test_an_encoded_image_is_reported_as_such(start: bytes, kind: str) -> None:
    from tfdist_trainer.data import tfrecord
    from tfdist_trainer.data.tfrecord import explain

    columns = (DataColumn("image", "uint8", (4, 4, 1)),)
    message = explain(tfrecord.example({"image": start + b"x" * 40}), columns)
    assert message is not None
    assert message.startswith(f"'image' is a {kind} file of {len(start) + 40} bytes, expected 16 of [4, 4, 1] as raw")
    assert "set imageFormat: Encoded" in message
