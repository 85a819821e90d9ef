"""`{fileList: ...}`: a file that lists the data files, with errors that name its line."""

from pathlib import Path
from typing import Any

import pytest

from tfdist.programs.data import DataConfig
from tfdist_trainer.data.file_lists import read_list
from tfdist_trainer.data.files import Pattern, Shard, Split, expand
from tfdist_trainer.errors import ConfigurationError, DataMalformedError, DataMissingError
from tfdist_trainer.programs import choose
from tfdist_trainer.programs.data_files import assignment

FIELD = "training.config.data.train"


def data_with(path: Path, content: str | bytes) -> DataConfig:
    """Return the configuration of the list `path`, after writing it."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return DataConfig.model_validate({"train": {"fileList": str(path)}})


def files(data: DataConfig, index: int = 0, count: int = 1) -> list[str]:
    return list(assignment(data, Split.TRAIN, Shard(index, count)).files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files a.csv to d.csv, and the folder `lists` in it."""
    for name in "abcd":
        (tmp_path / f"{name}.csv").write_text("x,label\n1,0\n")
    (tmp_path / "lists").mkdir()
    return tmp_path


def test_a_list_has_paths_and_patterns_relative_to_its_folder_and_comments(folder: Path) -> None:
    content = f"\ufeff# days\n\n../b.csv\r\n  ../[cd].csv  \n{folder}/a.csv\n../b.csv\n"
    data = data_with(folder / "lists" / "train.txt", content)
    names = [str(Path(name).resolve()) for name in files(data)]
    assert sorted(set(names)) == [f"{folder}/{name}.csv" for name in "abcd"]


def test_the_files_of_a_list_are_divided_between_workers_as_those_of_patterns(folder: Path) -> None:
    listed = data_with(folder / "train.txt", "d.csv\nc.csv\nb.csv\na.csv\n")
    by_pattern = DataConfig.model_validate({"train": f"{folder}/?.csv"})
    for worker in range(2):
        assert files(listed, worker, 2) == files(by_pattern, worker, 2)


def test_each_worker_reads_the_lines_with_its_index(folder: Path) -> None:
    for worker in range(2):
        (folder / f"part-{worker}.csv").write_text("x\n")
    data = data_with(folder / "train.txt", "part-{worker}.csv\n")
    assert files(data, 1, 2) == [f"{folder}/part-1.csv"]
    mixed = data_with(folder / "train.txt", "part-{worker}.csv\na.csv\n")
    with pytest.raises(
        ConfigurationError, match=rf"{FIELD}: .*train.txt: line 2: give {{worker}} in all patterns or in"
    ):
        files(mixed, 1, 2)


WRONG: dict[str, tuple[str | bytes, type[Exception], str]] = {
    "a file that is missing": ("a.csv\n\nz.csv\n", DataMissingError, ": line 3: no file matches '.*/z.csv'; check the"),
    "no line": ("", DataMissingError, " names no file; write the path of a file on each line"),
    "only comments": ("# a.csv\n", DataMissingError, " names no file"),
    "the list itself": (
        "a.csv\n./train.txt\n",
        DataMalformedError,
        ": line 2: the list names itself; remove this line, or give",
    ),
    "a pattern of the list itself": ("*\n", DataMalformedError, ": line 1: the list names itself"),
    "the list itself by another path": (
        "../{folder}/train.txt\n",
        DataMalformedError,
        ": line 1: the list names itself",
    ),
    "another encoding": (
        b"a.csv\ncaf\xe9.csv\n",
        DataMalformedError,
        ": line 2: is not text in UTF-8; a list of files",
    ),
    "a binary file": (b"\x18\0\0\0\0\0", DataMalformedError, ": line 1: is not text in UTF-8"),
}


@pytest.mark.parametrize(("content", "error", "message"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_in_a_list_is_named_with_its_line(
    content: str | bytes, error: type[Exception], message: str, folder: Path
) -> None:
    named = content.replace("{folder}", folder.name) if isinstance(content, str) else content
    data = data_with(folder / "train.txt", named)
    with pytest.raises(error, match=f"^{FIELD}: {folder}/train.txt{message}"):
        files(data)


def test_a_list_that_is_missing_is_named_with_the_field_and_the_remedy(tmp_path: Path) -> None:
    message = f"{FIELD}: cannot open the list of files {tmp_path}/a.txt: No such file or directory; check the path and"
    with pytest.raises(DataMissingError, match=message):
        read_list(f"{tmp_path}/a.txt", FIELD)


def test_a_list_of_any_length_is_read(folder: Path) -> None:
    (folder / "train.txt").write_text("./a.csv\n" * 100_000)
    assert len(read_list(f"{folder}/train.txt", FIELD)) == 100_000


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            {"fileList": "/data/part-{worker}.txt"},
            r"data.train.fileList: {worker} is not supported here; set it in the p",
        ),
        ({"fileList": ""}, r"data.train.fileList: "),
        ({"list": "/data/train.txt"}, r"data.train.list: unknown field"),
        (5, r"data.train: .*must be a string, a list or an object"),
        ([], r"data.train: "),
        (["/a", 5], r"data.train\[1\]: "),
    ],
)
def test_a_wrong_list_in_the_configuration_is_named_by_its_field(train: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"training.config.{message}"):
        choose("tabular", {"data": {"train": train}, "numeric": ["x"]})


def test_a_pattern_of_a_list_that_matches_a_folder_of_files_needs_a_wildcard(folder: Path) -> None:
    with pytest.raises(DataMissingError, match="here: no file matches"):
        expand([Pattern(str(folder), "here")])
