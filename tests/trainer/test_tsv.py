"""TSV: the same columns as of CSV, but a record is a line, and a double quote is a character like any other."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tfdist_trainer.data import csvs
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.errors import ColumnAbsentError, ConfigurationError, DataMalformedError

COLUMNS = (DataColumn("text", "string"), DataColumn("label", "int64", below=2))
HEADER = b"id\ttext\tlabel\n"


def written(path: Path, content: bytes) -> str:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


@pytest.mark.parametrize("name", ["x.tsv", "x.tsv.gz", "x.data"])
def test_a_line_is_a_record_whatever_quotes_and_commas_it_has(name: str, tmp_path: Path) -> None:
    lines = ['7\tIt is "good", and 6" long\t1\r', "", '8\t"Never\t0', "9\t caf\u00e9 \t1"]
    path = written(tmp_path / name, b"\xef\xbb\xbf" + HEADER + "\n".join(lines).encode())
    found = csvs.read_tsv(path, COLUMNS, BadRecords(skip=False))
    assert found["text"].tolist() == ['It is "good", and 6" long', '"Never', "caf\u00e9"]
    assert found["label"].tolist() == [1, 0, 1]


def test_a_file_gives_the_same_columns_as_the_csv_file_with_the_same_records(tmp_path: Path) -> None:
    columns = (
        DataColumn("id", "int64"),
        DataColumn("x", "float32"),
        DataColumn("kind", "string", choices=("b", "a")),
    )
    rows = [b"id,x,kind", *(b"%d,%r,%c" % (number, number / 3, b"ab"[number % 2]) for number in range(500))]
    table = written(tmp_path / "x.csv", b"\n".join(rows))
    tabs = written(tmp_path / "x.tsv", b"\n".join(rows).replace(b",", b"\t"))
    expected = csvs.read(table, columns, BadRecords(skip=False))
    found = csvs.read_tsv(tabs, columns, BadRecords(skip=False))
    for column in columns:
        np.testing.assert_array_equal(found[column.name], expected[column.name])
        assert found[column.name].dtype == expected[column.name].dtype


BAD_LINES = {
    "a tab in a text": (b"1\tgood\tfilm\t0", "has 4 fields, the header 3"),
    "a line that is cut off": (b"1\tgood", "has 2 fields, the header 3"),
    "zero bytes, as a crash leaves": (b"\0" * 4096, "has 1 field, the header 3"),
    "an empty text": (b"1\t \t0", "'text' is missing"),
    "a label that is no number": (b"1\tgood\tpos", "'label' is 'pos', expected a whole number"),
    "a label out of range": (b"1\tgood\t2", "'label' is 2, expected 0 to 1"),
    "a byte that is not UTF-8": (b"1\tcaf\xe9\t0", "'text' has the byte 0xe9, which is not UTF-8"),
}


@pytest.mark.parametrize("name", ["x.tsv", "x.tsv.gz"])
@pytest.mark.parametrize(("line", "message"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_reported_by_its_number_and_costs_no_other(
    line: bytes, message: str, name: str, tmp_path: Path
) -> None:
    path = written(tmp_path / name, HEADER + b"0\ta\t1\n\n" + line + b"\n" + b"2\tb\t0\n" * 100)
    with pytest.raises(DataMalformedError) as caught:
        csvs.read_tsv(path, COLUMNS, BadRecords(skip=False))
    assert str(caught.value).startswith(f"{path}: line 4: {message}")
    skipping = BadRecords(skip=True)
    found = csvs.read_tsv(path, COLUMNS, skipping)
    assert {len(array) for array in found.values()} == {101}
    assert (skipping.count, skipping.first) == (1, str(caught.value))


def test_the_records_before_damaged_compression_are_kept(tmp_path: Path) -> None:
    content = HEADER + b"".join(b"%d\t%d\t%d\n" % (number, number, number % 2) for number in range(50_000))
    path = tmp_path / "x.tsv.gz"
    path.write_bytes(gzip.compress(content)[:-60_000])
    bad = BadRecords(skip=True)
    found = csvs.read_tsv(str(path), COLUMNS, bad)["text"].tolist()
    assert found == [str(number) for number in range(len(found))]
    assert len(found) > 10_000
    assert bad.count == 1


def test_a_header_without_a_column_is_not_skipped_and_another_separator_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tsv", b"text\tlable\na\t0\n")
    with pytest.raises(ColumnAbsentError, match=r"x.tsv: line 1: has no column 'label'; it has \['text', 'lable'\]"):
        csvs.read_tsv(path, COLUMNS, BadRecords(skip=True))
    path = written(tmp_path / "y.tsv", b"text,label\na,0\n")
    with pytest.raises(ColumnAbsentError, match=r"its fields are separated by ',': set data.format: csv"):
        csvs.read_tsv(path, COLUMNS, BadRecords(skip=True))


def test_another_format_is_named_and_a_field_is_no_list(tmp_path: Path) -> None:
    path = written(tmp_path / "x.tsv", b"PK\x03\x04\x14\x00\x00\x00")
    with pytest.raises(DataMalformedError, match=r"x.tsv: not readable as TSV: it begins like a ZIP or .npz file"):
        csvs.read_tsv(path, COLUMNS, BadRecords(skip=False))
    with pytest.raises(ConfigurationError, match=r"'text' is an array of \[3\], and a field of TSV is one value"):
        csvs.read_tsv(
            written(tmp_path / "y.tsv", HEADER), (DataColumn("text", "float32", (3,)),), BadRecords(skip=False)
        )
