"""Sources of a module are edited in a copy, and only where an edit fits."""

from pathlib import Path

import pytest

from tfdist_cluster import gobuild, source_edits
from tfdist_cluster.errors import ClusterError
from tfdist_cluster.gobuild import Program
from tfdist_cluster.paths import State
from tfdist_cluster.schedulers import PROGRAMS
from tfdist_cluster.source_edits import Edit


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A module as Go's cache has it: without permission to write."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "main.go").write_text('listen("/etc", 80); log("/etc")')
    (folder / "main.go").chmod(0o444)
    folder.chmod(0o555)
    return folder


def test_the_copy_is_edited_and_the_source_is_not(source: Path, tmp_path: Path) -> None:
    source_edits.copy(source, tmp_path / "copy", [Edit("main.go", "80", "81"), Edit("main.go", "81", "82")])
    assert (tmp_path / "copy" / "main.go").read_text() == 'listen("/etc", 82); log("/etc")'
    assert "80" in (source / "main.go").read_text()


@pytest.mark.parametrize(("old", "count"), [("8080", 0), ("/etc", 2)])
def test_an_edit_of_another_version_is_an_error(old: str, count: int, source: Path, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=rf"main\.go has {count} times, not once: {old}"):
        source_edits.copy(source, tmp_path / "copy", [Edit("main.go", old, "new")])


def test_an_edited_module_is_built_in_place_of_the_required_one(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    ran: list[tuple[str, str]] = []
    state = State(tmp_path / "state", tmp_path / "cache")

    def go(command: list[str], _: Path, cwd: Path) -> None:
        ran.append((command[1], command[-1]))
        if command[1] == "build":
            text = (cwd / "source" / "main.go").read_text()
            Path(command[command.index("-o") + 1]).write_text(text)

    monkeypatch.setattr(gobuild, "_go", go)
    monkeypatch.setattr(gobuild, "require_go", lambda: None)
    monkeypatch.setattr(gobuild, "module_folder", lambda *_: source)
    requiring = tmp_path / "go-example"
    requiring.mkdir()
    (requiring / "go.mod").write_text("module example")
    wanted = Program("example", "example.com/cmd/example", 1)
    # when it is built twice, and with another edit
    built = [
        gobuild.edited(state, wanted, requiring, "example.com", [Edit("main.go", "80", port)]).read_text()
        for port in ("81", "81", "82")
    ]
    # then
    assert built == [f'listen("/etc", {port}); log("/etc")' for port in (81, 81, 82)]
    assert ran == [("mod", "-replace=example.com=./source"), ("build", "example.com/cmd/example")] * 2
    assert [path.name for path in (tmp_path / "cache" / "programs").glob("*.folder")] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_scheduler_has_a_module_that_pins_it(name: str) -> None:
    scheduler, _ = PROGRAMS[name]
    required, sums = ((scheduler.requiring / file).read_text() for file in ("go.mod", "go.sum"))
    assert required.count(f"{scheduler.module} v") == 1
    assert sums.count(f"{scheduler.module} v") == 2  # of its contents and of its go.mod
