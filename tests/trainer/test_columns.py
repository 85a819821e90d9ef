"""What every format has in common: a value that a column cannot hold, and a column that a file has twice."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tfdist_trainer.data import csvs, json_lines, npz, parquet
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.errors import ColumnAmbiguousError, DataMalformedError
from tfdist_trainer.programs import choose

Values = list[Any]
NUMBER: Final = DataColumn("x", "float32")
LARGEST: Final = float(np.finfo(np.float32).max)


def write_csv(path: Path, values: Values) -> None:
    path.write_text("\n".join(["x", *map(repr, values), ""]))


def write_json_lines(path: Path, values: Values) -> None:
    path.write_text("\n".join(json.dumps({"x": value}) for value in values))


def write_npz(path: Path, values: Values) -> None:
    npz.save(str(path), x=np.asarray(values, np.float64))


def write_parquet(path: Path, values: Values) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")
    from pyarrow.parquet import write_table  # noqa: PLC0415

    write_table(arrow.table({"x": values}), str(path))


TABULAR: Final = {"data": {"train": "x"}, "numeric": ["x"], "label": "label"}
TEXT: Final = {"data": {"train": "x"}, "text": "x", "label": "label"}
IMAGE: Final = {"data": {"train": "x"}}


@pytest.mark.parametrize(
    ("program", "config", "label", "message"),
    [
        ("tabular", TABULAR | {"classes": 3}, 3, 'classes: ["1", "2", "3"] (strings in TFRecord files)'),
        ("tabular", TABULAR | {"classes": 2}, -1, 'classes: ["1", "2"] (strings in TFRecord files)'),
        ("text_classification", TEXT | {"classes": 5}, 5, 'classes: ["1", "2", "3", ...] (strings in TFRecord files)'),
        ("image_classification", IMAGE | {"classes": 3}, 3, "if labels begin at 1, set training.config.labelOffset: 1"),
        (
            "image_classification",
            IMAGE | {"classes": 3, "labelOffset": 1},
            0,
            "if labels begin at 0, set training.config.labelOffset: 0",
        ),
    ],
)
def test_an_error_of_labels_that_begin_elsewhere_names_the_remedy(
    program: str, config: dict[str, Any], label: int, message: str
) -> None:
    created: Any = choose(program, config).create()
    column = created.columns()[-1]
    assert column.wrong(np.array([label])).all()
    assert column.complain(np.array(label)).endswith(message)


def test_labels_from_1_are_read_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x,label\n0,1\n0,3\n0,2\n")
    program: Any = choose("tabular", TABULAR | {"classes": ["1", "2", "3"]}).create()
    labels = csvs.read(str(tmp_path / "x.csv"), program.columns(), BadRecords(skip=False))["label"]
    assert labels.tolist() == [0, 2, 1]


Format = tuple[Callable[..., Any], Callable[[Path, Values], None], str]
FORMATS: dict[str, Format] = {
    "csv": (csvs.read, write_csv, "line 4"),
    "tsv": (csvs.read_tsv, write_csv, "line 4"),
    "jsonl": (json_lines.read, write_json_lines, "line 3"),
    "npz": (npz.read, write_npz, "record 2"),
    "parquet": (parquet.read, write_parquet, "row group 0, row 2"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", [1e39, -1e300])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_number_beyond_float32_is_a_bad_record_and_does_not_become_infinite(
    kind: str, value: float, tmp_path: Path
) -> None:
    # given
    read, write, place = FORMATS[kind]
    path = tmp_path / f"x.{kind}"
    write(path, [1.5, LARGEST, value, -2.0])
    # when
    with pytest.raises(DataMalformedError) as caught:
        read(str(path), [NUMBER], BadRecords(skip=False))
    skipping = BadRecords(skip=True)
    found = read(str(path), [NUMBER], skipping)["x"]
    # then
    assert str(caught.value) == f"{path}: {place}: 'x' is {value!r}, beyond the range of float32, 3.4e+38"
    assert found.tolist() == [1.5, LARGEST, -2.0]
    assert skipping.count == 1


@pytest.mark.parametrize("kind", ["jsonl", "npz", "parquet"])
def test_the_number_beyond_float32_in_a_list_is_the_one_that_is_named(kind: str, tmp_path: Path) -> None:
    read, write, _ = FORMATS[kind]
    path = tmp_path / f"x.{kind}"
    write(path, [[1.5, 2.5], [3.5, 1e39]])
    with pytest.raises(DataMalformedError, match=r"'x' is 1e\+39, beyond the range of float32"):
        read(str(path), [DataColumn("x", "float32", (2,))], BadRecords(skip=False))


def test_a_weight_beyond_float32_is_named_as_such_and_a_negative_one_as_negative() -> None:
    weight = DataColumn("w", "float32", positive=True)
    values = np.array([0.0, 1e39, -1.0, np.nan])
    assert weight.wrong(values).tolist() == [False, True, True, True]
    assert weight.complain(values[1]) == "'w' is 1e+39, beyond the range of float32, 3.4e+38"
    assert weight.complain(values[2]) == "'w' is -1.0, expected a number that is not negative"


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_column_that_a_file_has_twice_is_an_error_that_is_not_skipped(kind: str, skip: bool, tmp_path: Path) -> None:
    # given
    read, path = FORMATS[kind][0], tmp_path / f"x.{kind}"
    if kind == "parquet":
        arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, which is optional")
        from pyarrow.parquet import write_table  # noqa: PLC0415

        write_table(arrow.table([[1.0], [2.0], [3.0]], names=["x", "note", "x"]), str(path))
    else:
        separator = "," if kind == "csv" else "\t"
        path.write_text("x,note, x\n1,2,3\n".replace(",", separator))
    # when, then
    with pytest.raises(ColumnAmbiguousError, match="has several columns 'x'"):
        read(str(path), [NUMBER], BadRecords(skip=skip))
    if kind != "parquet":
        assert read(str(path), [DataColumn("note", "float32")], BadRecords(skip=skip))["note"].tolist() == [2.0]
