"""Exports of several writers, and exports that are killed: a reader finds one model, whole, or for a moment none."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support.checkpoint_writers import by
from support.object_servers import GS_IS_LONG

from tfdist.api.export import ExportedModel
from tfdist.contract import ExportSettings
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError, StorageError
from tfdist_trainer.export import export
from tfdist_trainer.fence import Writer
from tfdist_trainer.storage.object_folder import ObjectFolder
from tfdist_trainer.storage.object_store import Bucket
from tfdist_trainer.storage.object_urls import split

pytestmark = pytest.mark.trainer

OS_CALLS = ("rename", "mkdir", "rmdir", "unlink", "open")
REQUESTS = ("put", "put_if", "delete", "copy", "tree", "get", "folder")
VARIABLES = ("saved_model/variables/variables.index", "saved_model/variables/variables.data-00000-of-00001")


class Killed(BaseException):
    """This process does nothing more."""


class Model:
    """A model whose files all have its name; `meanwhile` is called while it is saved."""

    def __init__(self, name: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.name, self._meanwhile = name, meanwhile

    def save(self, path: Path) -> None:
        path.write_text(self.name)

    def export(self, folder: str, **_: Any) -> None:
        (Path(folder) / "variables").mkdir(parents=True)
        for name in ("saved_model/saved_model.pb", "saved_model/fingerprint.pb", *VARIABLES):
            (Path(folder).parent / name).write_text(self.name)
        self._meanwhile()


def write(directory: str, model: Model, writer: Writer | None = None, *formats: str) -> None:
    settings = ExportSettings(directory=directory, formats=[*formats] or ["Keras", "SavedModel"], which=["Final"])
    export(settings, ExportedModel.FINAL, model, 1, writer or by())


def stored(directory: str) -> dict[str, str]:
    """Return the files below `directory`, by path."""
    if "://" not in directory:
        files = [each for each in Path(directory).rglob("*") if each.is_file()]
        return {str(each.relative_to(directory)): each.read_text() for each in files}
    name, key = split(directory)
    bucket = Bucket(name)
    found = {each.key.removeprefix(f"{key}/"): bucket.get(each.key) for each in bucket.tree(f"{key}/")}
    return {path: each[0].decode() for path, each in found.items() if each is not None}


def models(directory: str) -> set[str]:
    """Return the models in `final` that readers of the formats find, whose files must be of one model."""
    files = {path.removeprefix("final/"): text for path, text in stored(directory).items() if path.startswith("final/")}
    found = {files["model.keras"]} if "model.keras" in files else set()
    if "saved_model/saved_model.pb" in files:
        found |= {text for path, text in files.items() if path.startswith("saved_model/")}
        assert files.keys() >= set(VARIABLES)
    assert len(found) <= 1, f"a mix: {files}"
    return found


def kill_at(monkeypatch: pytest.MonkeyPatch, owner: Any, names: tuple[str, ...], number: int) -> Callable[[], bool]:
    """End all calls of these functions from the one with this number on; return a function: whether it came to that."""
    calls = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > number:
                raise Killed
            return original(*args, **kwargs)

        return call

    for name in names:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    return lambda: calls > number


def check_kills(directory: Callable[[int], str], owner: Any, names: tuple[str, ...], *formats: str) -> None:
    """Kill the export of `new` in place of `old` at each call, and then export once more."""
    for number in range(1000):
        where = directory(number)
        write(where, Model("old"), None, *formats)
        with pytest.MonkeyPatch.context() as monkeypatch:
            killed = kill_at(monkeypatch, owner, names, number)
            with contextlib.suppress(Killed):
                write(where, Model("new"), by(attempt=1))
            if not killed():
                return
        assert models(where) <= {"old"} or models(where) == {"new"}
        write(where, Model("newest"), by(attempt=2))
        assert models(where) == {"newest"}
        # A kill within a claim leaves its temporary file, which may as well be that of a claim that is being made.
        others = [path for path in stored(where) if not path.startswith("final/")]
        assert [path for path in others if path.count("/") > 1] == [], "nothing of a model is left elsewhere"
    pytest.fail("the export does not end")


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats stand still: their threads would be killed, too."""
    monkeypatch.setattr("tfdist_trainer.writer_heartbeat.PERIOD_SECONDS", 1e6)


@pytest.mark.parametrize("formats", [("Keras", "SavedModel"), ("Keras",), ("SavedModel",)], ids="-".join)
def test_a_kill_at_any_call_leaves_one_model_in_a_directory(tmp_path: Path, formats: tuple[str, ...]) -> None:
    check_kills(lambda number: str(tmp_path / str(number)), os, OS_CALLS, *formats)


@GS_IS_LONG
@pytest.mark.parametrize(
    "formats",
    [
        pytest.param(("Keras", "SavedModel"), id="both"),
        pytest.param(("Keras",), id="Keras", marks=pytest.mark.long),
        pytest.param(("SavedModel",), id="SavedModel", marks=pytest.mark.long),
    ],
)
def test_a_kill_at_any_request_leaves_one_model_in_an_object_store(url: str, formats: tuple[str, ...]) -> None:
    check_kills(lambda number: f"{url}/{number}", Bucket, REQUESTS, *formats)


@pytest.fixture(params=["volume", "store"])
def place(request: pytest.FixtureRequest, url: str, tmp_path: Path) -> str:
    return url if request.param == "store" else str(tmp_path / "models")


@GS_IS_LONG
def test_of_two_attempts_the_later_one_exports(place: str) -> None:
    """The earlier one is on a node that did not answer, and goes on while its successor has begun to export."""
    successor = Model("successor")
    old = Model("old", lambda: write(place, successor, by(attempt=1)))
    with pytest.raises(CheckpointUnwritableError, match=r"training\.export\.directory: .* belongs to attempt 1 of job"):
        write(place, old, by(attempt=0, host="lost"))
    assert models(place) == {"successor"}
    assert {path for path in stored(place) if not path.startswith("final/")} == {".final/fence.json"}


@GS_IS_LONG
def test_another_job_cannot_export_there_meanwhile(place: str) -> None:
    def other() -> None:
        running = mock.patch("tfdist_trainer.writer_heartbeat.has_ended", return_value=False)
        with (
            running,
            pytest.raises(ConfigurationError, match=r"training\.export\.directory: .* is written by .*ml/first"),
        ):
            write(place, Model("other"), by(name="second"))

    write(place, Model("first", other))
    assert models(place) == {"first"}
    write(place, Model("other"), by(name="second"))
    assert models(place) == {"other"}, "the first one has ended"


def test_a_rename_that_fails_restores_the_former_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(str(tmp_path), Model("old"))
    rename = Path.rename

    def failing(path: Path, target: Path) -> Path:
        if path.name.startswith(".tmp-0-"):
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(StorageError, match="Input/output error"):
        write(str(tmp_path), Model("new"))
    assert models(str(tmp_path)) == {"old"}


@GS_IS_LONG
def test_a_copy_that_fails_restores_the_former_model(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(url, Model("old"))
    copy, failed = ObjectFolder._copy, False

    def failing(folder: ObjectFolder, source: Any, name: str) -> None:
        nonlocal failed
        if not failed and folder.key.endswith("/final") and name == VARIABLES[1]:
            failed = True
            raise StorageError("the server does not answer")
        copy(folder, source, name)

    monkeypatch.setattr(ObjectFolder, "_copy", failing)
    with pytest.raises(StorageError, match="does not answer"):
        write(url, Model("new"))
    assert models(url) == {"old"}
    assert stored(url)["final/saved_model/saved_model.pb"] == "old"


def test_a_claim_is_of_one_model(tmp_path: Path) -> None:
    """The evaluator exports the best model while the chief exports the final one."""
    settings = ExportSettings(directory=str(tmp_path), formats=["Keras"], which=["Final", "Best"])
    export(settings, ExportedModel.BEST, Model("best"), 1, by(attempt=3))
    export(settings, ExportedModel.FINAL, Model("final"), 1, by(attempt=0))
    assert (tmp_path / "final/model.keras").read_text() == "final"
    assert (tmp_path / "best/model.keras").read_text() == "best"
