"""An error of the storage is neither absence nor damage of input data, and what cannot be listed is no smaller data."""

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdist_trainer.data import files, framing, tfrecord
from tfdist_trainer.data.columns import BadRecords, DataColumn
from tfdist_trainer.data.file_lists import read_list
from tfdist_trainer.data.files import Pattern
from tfdist_trainer.data.idx import read
from tfdist_trainer.data.source import READERS
from tfdist_trainer.errors import DataMissingError, StorageError, TrainerError

TREE = ("2025/a.csv", "2026/a.csv", "2026/b.csv", "2026/deep/c.csv")
Fail = Callable[[str, int], None]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in TREE:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    return tmp_path


@pytest.fixture
def fail(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Return a function that makes the storage answer with an error for a folder or file."""
    failing: dict[str, int] = {}

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            code = None if isinstance(path, int) else failing.get(os.path.normpath(os.fspath(path)))
            if code is not None:
                raise OSError(code, os.strerror(code), str(path))
            return original(path, *args, **kwargs)

        return call

    monkeypatch.setattr(os, "scandir", wrapped(os.scandir))
    monkeypatch.setattr("io.open", wrapped(open))
    return lambda name, code: failing.update({str(tree / name): code})


def expanded(tree: Path, pattern: str) -> list[str]:
    names = files.expand([Pattern(str(tree / pattern), "training.config.data")])
    return [str(Path(name).relative_to(tree)) for name in names]


@pytest.mark.parametrize(
    ("pattern", "found", "searched"),
    [
        ("2026/*.csv", ["2026/a.csv", "2026/b.csv"], "2026"),
        ("*/a.csv", ["2025/a.csv", "2026/a.csv"], "."),
        ("*/[a].csv", ["2025/a.csv", "2026/a.csv"], "2026"),
        ("**/*.csv", sorted(TREE), "2026/deep"),
        ("**/*.csv", sorted(TREE), "."),
        ("2026/**", ["2026/a.csv", "2026/b.csv", "2026/deep/c.csv"], "2026/deep"),
        ("2026/*/*.csv", ["2026/deep/c.csv"], "2026/deep"),
    ],
)
@pytest.mark.parametrize(
    ("code", "kind"),
    [(errno.EIO, StorageError), (errno.ESTALE, StorageError), (errno.EACCES, DataMissingError)],
)
def test_a_folder_that_cannot_be_listed_is_an_error_and_not_less_data(
    tree: Path, fail: Fail, pattern: str, found: list[str], searched: str, code: int, kind: type[TrainerError]
) -> None:
    assert expanded(tree, pattern) == found
    fail(searched, code)
    with pytest.raises(kind, match="cannot list the files of ") as raised:
        expanded(tree, pattern)
    assert os.strerror(code) in str(raised.value)
    assert str(tree / searched) in str(raised.value)


def test_a_pattern_searches_no_folder_that_it_does_not_name(tree: Path, fail: Fail) -> None:
    fail("2025", errno.EIO)
    assert expanded(tree, "2026/*.csv") == ["2026/a.csv", "2026/b.csv"]
    assert expanded(tree, "2026/a.csv") == ["2026/a.csv"]


@pytest.mark.parametrize("pattern", ["2027/*.csv", "2027/a.csv", "*/z.csv"])
def test_what_does_not_exist_is_missing(tree: Path, pattern: str) -> None:
    with pytest.raises(DataMissingError, match="no file matches"):
        expanded(tree, pattern)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda path: files.expand([Pattern(path, "data")]), id="a file of data"),
        pytest.param(files.still_readable, id="a file at its turn"),
        pytest.param(lambda path: read_list(path, "data"), id="a list of files"),
        pytest.param(read, id="an idx file"),
    ],
)
@pytest.mark.parametrize(("code", "kind"), [(errno.EIO, StorageError), (errno.ENOENT, DataMissingError)])
def test_a_file_that_cannot_be_read_may_be_whole(
    tree: Path, fail: Fail, use: Callable[[str], object], code: int, kind: type[TrainerError]
) -> None:
    fail("2026/a.csv", code)
    with pytest.raises(kind) as raised:
        use(str(tree / "2026/a.csv"))
    assert os.strerror(code) in str(raised.value)


def test_a_gzip_file_that_the_storage_stops_sending_is_not_a_damaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.tfrecord.gz"
    path.write_bytes(gzip.compress(b"x" * 100))

    def stops(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(gzip.GzipFile, "readinto", stops)
    with pytest.raises(OSError, match="Input/output error"):
        framing.frames(str(path), gzip=True)


def read_tfrecord(name: str, *_: object) -> Any:
    return tfrecord.complete(name, gzip=False)


@pytest.mark.parametrize("kind", ["npz", "csv", "tsv", "text", "jsonl", "idx", "tfrecord"])
def test_no_format_skips_what_the_storage_does_not_send(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a file whose storage fails, and a job that skips bad records
    path = str(tmp_path / f"a.{kind}")
    Path(path).write_bytes(b"x" * 10)

    def fails(*_: object, **__: object) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr("io.open", fails)
    monkeypatch.setattr("numpy.load", fails)
    # then reading it is an error of the storage
    columns = [DataColumn("text", "string"), DataColumn("label", "int64")]
    with pytest.raises(StorageError, match="Input/output error"):
        {**READERS, "tfrecord": read_tfrecord}[kind](path, columns, BadRecords(skip=True))
