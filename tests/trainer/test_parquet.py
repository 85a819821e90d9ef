"""Parquet: the same columns as of other formats, and each bad value is named by row group, row and column."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfdist_trainer.data import parquet
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.errors import ColumnAbsentError, ConfigurationError, DataMalformedError

COLUMNS = (
    DataColumn("id", "int64"),
    DataColumn("x", "float32"),
    DataColumn("kind", "string", choices=("b", "a")),
)
VECTOR = (DataColumn("x", "float32", (3,)),)
IMAGE = (DataColumn("image", "uint8", (2, 2, 1)),)


def test_without_pyarrow_the_message_has_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        ConfigurationError, match=r"x.parquet is read by pyarrow, which is not installed: install pyarrow"
    ):
        parquet.read(f"{tmp_path}/x.parquet", COLUMNS, BadRecords(skip=True))


@pytest.fixture
def arrow() -> Any:
    return pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")


def written(path: Path, arrays: dict[str, Any], arrow: Any, row_group_size: int = 2, **options: Any) -> str:
    from pyarrow.parquet import write_table  # noqa: PLC0415

    write_table(arrow.table(arrays), str(path), row_group_size=row_group_size, **options)
    return str(path)


def read(name: str, columns: tuple[DataColumn, ...], *, skip: bool = False) -> dict[str, list[Any]]:
    found = parquet.read(name, columns, BadRecords(skip=skip))
    return {key: array.tolist() for key, array in found.items()}


def test_columns_have_their_types_over_all_row_groups(arrow: Any, tmp_path: Path) -> None:
    arrays = {"note": [None] * 5, "kind": list("abaab"), "x": [1.5, 2, 3, 4, 5], "id": arrow.array(range(5), "uint16")}
    found = parquet.read(written(tmp_path / "x.parquet", arrays, arrow), COLUMNS, BadRecords(skip=False))
    values = {key: value.tolist() for key, value in found.items()}
    assert values == {"id": [0, 1, 2, 3, 4], "x": [1.5, 2, 3, 4, 5], "kind": [1, 0, 1, 1, 0]}
    assert [found[key].dtype for key in ("id", "x", "kind")] == [np.int64, np.float32, np.int64]


def test_strings_may_be_dictionaries_or_bytes_and_whole_numbers_names(arrow: Any, tmp_path: Path) -> None:
    column = (DataColumn("text", "string"),)
    for values in (arrow.array(["a", "é"]).dictionary_encode(), arrow.array([b"a", "é".encode()])):
        assert read(written(tmp_path / "x.parquet", {"text": values}, arrow), column) == {"text": ["a", "é"]}
    assert read(written(tmp_path / "x.parquet", {"text": [3, 4]}, arrow), column) == {"text": ["3", "4"]}


def test_lists_of_fixed_and_of_equal_length_are_arrays(arrow: Any, tmp_path: Path) -> None:
    rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    for kind in (arrow.list_(arrow.float32(), 3), arrow.list_(arrow.float64()), arrow.list_(arrow.int8())):
        values = arrow.array(rows, arrow.list_(arrow.float64())).cast(kind)
        assert read(written(tmp_path / "x.parquet", {"x": values}, arrow), VECTOR) == {"x": rows}
    pixels = {"image": [[[0, 1], [2, 255]]]}
    assert read(written(tmp_path / "x.parquet", pixels, arrow), IMAGE)["image"] == [[[[0], [1]], [[2], [255]]]]


BAD_VALUES: dict[str, tuple[tuple[DataColumn, ...], str, list[Any], str]] = {
    "null": (COLUMNS, "x", [1, 2, 3, None, 5], "row group 1, row 1: 'x' is missing; it is null"),
    "not a number": (COLUMNS, "x", [1, 2, 3, 4, float("nan")], "row group 2, row 0: 'x' is nan, expected a finite num"),
    "another category": (COLUMNS, "kind", list("abcab"), "row group 1, row 0: 'kind' is 'c', expected one of b, a"),
    "a byte that is not UTF-8": (
        COLUMNS,
        "kind",
        [b"a", b"\xe9", *[b"a"] * 3],
        "row group 0, row 1: 'kind' is not UTF-8",
    ),
    "65 bits": (
        COLUMNS,
        "id",
        list(np.array([1, 2, 2**63, 4, 5], np.uint64)),
        "row group 1, row 0: 'id' is 9223372036854775808, expected a whole",
    ),
    "a short list": (VECTOR, "x", [*[[1, 2, 3]] * 4, [1]], "row group 2, row 0: 'x' has the shape [1], expected [3]"),
    "null in a list": (
        VECTOR,
        "x",
        [[1, 2, None], *[[1, 2, 3]] * 4],
        "row group 0, row 0: 'x' is [1, 2, None], expected",
    ),
}


@pytest.mark.parametrize(("columns", "column", "values", "message"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_bad_value_is_reported_by_its_place_and_costs_no_other_row(
    columns: tuple[DataColumn, ...], column: str, values: list[Any], message: str, arrow: Any, tmp_path: Path
) -> None:
    arrays: dict[str, Any] = {"id": range(5), "x": range(5), "kind": ["a"] * 5} | {column: values}
    path = written(tmp_path / "x.parquet", {key: arrow.array(list(value)) for key, value in arrays.items()}, arrow)
    with pytest.raises(DataMalformedError) as caught:
        parquet.read(path, columns, BadRecords(skip=False))
    assert str(caught.value).startswith(f"{path}: {message}")
    skipping = BadRecords(skip=True)
    found = parquet.read(path, columns, skipping)
    assert {len(array) for array in found.values()} == {4}
    assert (skipping.count, skipping.first) == (1, str(caught.value))


def test_a_damaged_row_group_costs_its_rows_only(arrow: Any, tmp_path: Path) -> None:
    options = {"write_page_checksum": True, "use_dictionary": False}
    path = written(tmp_path / "x.parquet", {"x": np.arange(3000.0)}, arrow, 1000, **options)
    content = bytearray(Path(path).read_bytes())
    from pyarrow.parquet import ParquetFile  # noqa: PLC0415

    chunk = ParquetFile(path).metadata.row_group(1).column(0)
    place = chunk.data_page_offset + chunk.total_compressed_size // 2
    content[place : place + 8] = bytes(255 - byte for byte in content[place : place + 8])
    Path(path).write_bytes(content)
    column, bad = (DataColumn("x", "float32"),), BadRecords(skip=True)
    with pytest.raises(DataMalformedError, match=r"x.parquet: row group 1: its 1000 rows are not readable: "):
        parquet.read(path, column, BadRecords(skip=False))
    assert parquet.read(path, column, bad)["x"].tolist() == [*range(1000), *range(2000, 3000)]
    assert bad.count == 1000


def test_what_is_wrong_in_the_file_as_a_whole_is_named(arrow: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", {"id": ["1"], "x": [[1]], "kind": [True]}, arrow)
    for column, found in zip(
        COLUMNS, ("string, expected integer", "list<.*expected integer or", "bool, exp"), strict=True
    ):
        with pytest.raises(DataMalformedError, match=f"x.parquet: column '{column.name}' is {found}"):
            read(path, (column,))
    with pytest.raises(ColumnAbsentError, match=r"x.parquet: has no column 'label'; it has \['id', 'x', 'kind'\]"):
        read(path, (DataColumn("label", "int64"),), skip=True)
    Path(path).write_bytes(b"PAR1")
    with pytest.raises(DataMalformedError, match=r"x.parquet: not a readable Parquet file: "):
        read(path, COLUMNS)
