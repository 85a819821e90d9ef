"""JSON lines: the same columns as of other formats, and each bad line is named and costs no other."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist_trainer.data import csvs, json_lines
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.errors import ColumnAbsentError, ConfigurationError, DataMalformedError

COLUMNS = (
    DataColumn("id", "int64"),
    DataColumn("x", "float32"),
    DataColumn("kind", "string", choices=("b", "a")),
)
VECTOR = (DataColumn("x", "float32", (3,)), DataColumn("label", "int64", below=2))
IMAGE = (DataColumn("image", "uint8", (2, 2, 1)),)
TEXT = (DataColumn("text", "string"), DataColumn("label", "int64", below=2))


def written(path: Path, *lines: str | bytes) -> str:
    content = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n"
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def read(name: str, columns: tuple[DataColumn, ...], *, skip: bool = False) -> dict[str, list[Any]]:
    found = json_lines.read(name, columns, BadRecords(skip=skip))
    return {key: array.tolist() for key, array in found.items()}


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.data"])
def test_objects_give_columns_in_their_types_whatever_else_is_there(name: str, tmp_path: Path) -> None:
    lines = [
        '\ufeff{"kind": "a", "x": 1.5, "id": 7, "note": {"by": [null]}}',
        "",
        " ",
        '{"id":8,"x":-2e3,"kind":"b"}\r',
    ]
    path = written(tmp_path / name, *lines)
    found = json_lines.read(path, COLUMNS, BadRecords(skip=False))
    assert {key: value.tolist() for key, value in found.items()} == {"id": [7, 8], "x": [1.5, -2000], "kind": [1, 0]}
    assert [found[key].dtype for key in ("id", "x", "kind")] == [np.int64, np.float32, np.int64]


def test_a_file_gives_the_same_columns_as_the_csv_file_with_the_same_records(tmp_path: Path) -> None:
    rows = [(number, number / 3, "ab"[number % 2]) for number in range(500)]
    table = written(tmp_path / "x.csv", "id,x,kind", *(f"{i},{x!r},{kind}" for i, x, kind in rows))
    lines = written(
        tmp_path / "x.jsonl", *(json.dumps(dict(zip(("id", "x", "kind"), row, strict=True))) for row in rows)
    )
    expected = csvs.read(table, COLUMNS, BadRecords(skip=False))
    found = json_lines.read(lines, COLUMNS, BadRecords(skip=False))
    for column in COLUMNS:
        np.testing.assert_array_equal(found[column.name], expected[column.name])
        assert found[column.name].dtype == expected[column.name].dtype


def test_lists_are_arrays_of_the_shape_of_their_column(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"x": [1, 2.5, true], "label": true}', '{"x": [0, -1, 2], "label": 0.0}')
    assert read(path, VECTOR) == {"x": [[1, 2.5, 1], [0, -1, 2]], "label": [1, 0]}
    path = written(tmp_path / "y.jsonl", '{"image": [[0, 1], [2, 255]]}', '{"image": [[[4], [5]], [[6], [7]]]}')
    assert read(path, IMAGE)["image"] == [[[[0], [1]], [[2], [255]]], [[[4], [5]], [[6], [7]]]]


def test_texts_are_kept_as_they_are_and_whole_numbers_are_names_of_categories(tmp_path: Path) -> None:
    lines = [{"text": " caf\u00e9\n\U0001f600 ", "label": 0}, {"text": "", "label": 1}, {"text": 12, "label": 1}]
    path = written(tmp_path / "x.jsonl", json.dumps(lines[0], ensure_ascii=False), *map(json.dumps, lines))
    assert read(path, TEXT)["text"] == [" caf\u00e9\n\U0001f600 ", " caf\u00e9\n\U0001f600 ", "", "12"]


BAD_LINES: dict[str, tuple[tuple[DataColumn, ...], str | bytes, str]] = {
    "no JSON": (
        TEXT,
        "{'text': 1}",
        "not readable as JSON: Expecting property name enclosed in double quotes at charac",
    ),
    "a line that is cut off": (TEXT, '{"text": "a", "la', "not readable as JSON: Unterminated string"),
    "two objects": (
        TEXT,
        '{"text": "a", "label": 0} {}',
        "not readable as JSON: Extra data at character 27; in JSON l",
    ),
    "an object over several lines": (TEXT, "{", "not readable as JSON: Expecting property name"),
    "zero bytes, as a crash leaves": (TEXT, b"\0" * 4096, "not readable as JSON: Expecting value at character 1"),
    "a number of 5000 digits": (TEXT, '{"text": "a", "label": ' + "1" * 5000 + "}", "not readable as JSON: Exceeds"),
    "100,000 lists": (TEXT, "[" * 100_000, "not readable as JSON: "),
    "a list": (TEXT, '["a", 0]', "is ['a', 0], expected an object; in JSON lines each line is one object"),
    "a field that is missing": (TEXT, '{"text": "a"}', "'label' is missing; it has ['text']"),
    "null": (TEXT, '{"text": null, "label": 0}', "'text' is missing; it is null"),
    "a byte that is not UTF-8": (
        TEXT,
        b'{"text": "caf\xe9", "label": 0}',
        "'text' has the byte 0xe9, which is not UTF-8",
    ),
    "half a character": (TEXT, '{"text": "\\udc80", "label": 0}', "'text' has \\udc80, half of a pair of surrogates"),
    "a number as text": (TEXT, '{"text": 1.5, "label": 0}', "'text' is 1.5, expected a string"),
    "a text as number": (COLUMNS, '{"id": "1", "x": 1, "kind": "a"}', "'id' is '1', expected a whole number"),
    "a fraction": (COLUMNS, '{"id": 1.5, "x": 1, "kind": "a"}', "'id' is 1.5, expected a whole number"),
    "an integer of 65 bits": (
        COLUMNS,
        '{"id": 18446744073709551616, "x": 1, "kind": "a"}',
        "'id' is 18446744073709551",
    ),
    "a list in place of a number": (COLUMNS, '{"id": 1, "x": [1], "kind": "a"}', "'x' is [1], expected a number"),
    "not a number": (COLUMNS, '{"id": 1, "x": NaN, "kind": "a"}', "'x' is nan, expected a finite number"),
    "another category": (COLUMNS, '{"id": 1, "x": 1, "kind": "c"}', "'kind' is 'c', expected one of b, a"),
    "a label out of range": (TEXT, '{"text": "a", "label": 2}', "'label' is 2, expected 0 to 1"),
    "a list too short": (VECTOR, '{"x": [1, 2], "label": 0}', "'x' has the shape [2], expected [3]"),
    "a number in place of a list": (
        VECTOR,
        '{"x": 1, "label": 0}',
        "'x' is 1, expected a list of numbers of the shape",
    ),
    "a list with null": (VECTOR, '{"x": [1, null, 2], "label": 0}', "'x' is [1, None, 2], expected a list of numbers"),
    "a list with a text": (VECTOR, '{"x": [1, "2", 2], "label": 0}', "'x' is [1, '2', 2], expected a list of numbers"),
    "lists of two lengths": (IMAGE, '{"image": [[1, 2], [3]]}', "'image' is [[1, 2], [3]], expected a list of numbers"),
    "a pixel of 256": (IMAGE, '{"image": [[1, 2], [3, 256]]}', "'image' has values from 1 to 256, expected 0 to 255"),
}
GOOD = '{"id": 1, "text": "a", "label": 1, "kind": "a", "image": [[0, 0], [0, 0]], "x": %s}'


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
@pytest.mark.parametrize(("columns", "line", "message"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_reported_by_its_number_and_costs_no_other(
    columns: tuple[DataColumn, ...], line: str | bytes, message: str, name: str, tmp_path: Path
) -> None:
    good = GOOD % ("[1, 2, 3]" if columns is VECTOR else "1")
    path = written(tmp_path / name, good, "", line, *[good] * 100)
    with pytest.raises(DataMalformedError) as caught:
        json_lines.read(path, columns, BadRecords(skip=False))
    assert str(caught.value).startswith(f"{path}: line 3: {message}")
    skipping = BadRecords(skip=True)
    found = json_lines.read(path, columns, skipping)
    assert {len(array) for array in found.values()} == {101}
    assert (skipping.count, skipping.first) == (1, str(caught.value))


def test_a_line_that_is_bad_in_two_columns_is_counted_once(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"id": "1", "x": "2", "kind": "a"}', '{"id": 1, "x": 2, "kind": "a"}')
    bad = BadRecords(skip=True)
    assert len(json_lines.read(path, COLUMNS, bad)["id"]) == bad.count == 1


def test_a_byte_that_is_not_utf8_in_a_field_that_is_not_read_is_ignored(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", b'{"author": "Ren\xe9", "text": "a", "label": 0}')
    assert read(path, TEXT)["text"] == ["a"]


def test_a_field_that_no_object_has_is_not_skipped(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", '{"text": "a", "lable": 0}', "no object", '{"text": "b"}')
    with pytest.raises(ColumnAbsentError, match=r"x.jsonl: no record has a field 'label'; they have \['lable', 'text'"):
        read(path, TEXT, skip=True)


def test_the_records_before_damaged_compression_are_kept(tmp_path: Path) -> None:
    path = Path(written(tmp_path / "x.jsonl.gz", *(json.dumps({"text": str(i), "label": 0}) for i in range(50_000))))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataMalformedError, match=r"after line \d+: the rest of the file is not readable"):
        read(str(path), TEXT)
    bad = BadRecords(skip=True)
    found = json_lines.read(str(path), TEXT, bad)["text"].tolist()
    assert found == [str(number) for number in range(len(found))]
    assert len(found) > 10_000
    assert bad.count == 1


def test_another_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"PK\x03\x04\x14\x00\x00\x00")
    message = (
        r"x.jsonl: not readable as JSON lines: it begins like a ZIP or .npz file; set data.format, or convert it to"
    )
    with pytest.raises(DataMalformedError, match=message):
        read(str(tmp_path / "x.jsonl"), TEXT)


def test_csv_has_no_lists(tmp_path: Path) -> None:
    path = written(tmp_path / "x.csv", "x,label", "1,0")
    with pytest.raises(ConfigurationError, match=r"x.csv: 'x' is an array of \[3\], and a field of CSV is one value"):
        csvs.read(path, VECTOR, BadRecords(skip=True))
