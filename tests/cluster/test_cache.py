"""The cache of builds: where it is, what a clone has of it, and how it is removed."""

from pathlib import Path

import pytest

from tfdist_cluster import gobuild, up
from tfdist_cluster.paths import State


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"TFDIST_CACHE": "mine", "XDG_CACHE_HOME": "caches"}, "mine"),
        ({"XDG_CACHE_HOME": "caches"}, "caches/tfdist"),
        ({"HOME": "home"}, "home/.cache/tfdist"),
    ],
)
def test_the_cache_is_the_users(
    variables: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TFDIST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"TFDIST_STATE": "state"} | variables).items():
        monkeypatch.setenv(name, str(tmp_path / value))
    assert State.from_environment() == State(tmp_path / "state", tmp_path / expected)


def test_two_clones_link_to_one_executable_by_all_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def go(command: list[str], *_: object) -> None:
        built.append(command[-1])
        Path(command[command.index("-o") + 1]).write_text("executable")

    monkeypatch.setattr(gobuild, "_go", go)
    monkeypatch.setattr(gobuild, "require_go", lambda: None)
    wanted = gobuild.Program("kube", "./cmd/kube", 1, ("kubectl",))
    clones = [State(tmp_path / name, tmp_path / "cache") for name in ("one", "two")]
    assert not gobuild.is_cached(clones[0], wanted)
    paths = [gobuild.program(clone, wanted) for clone in clones]
    assert built == ["./cmd/kube"]
    assert len({path.resolve() for path in paths}) == 1
    assert [(clone.bin / "kubectl").read_text() for clone in clones] == ["executable"] * 2
    assert gobuild.is_cached(clones[1], wanted)


def test_cleaning_the_cache_leaves_only_locks(tmp_path: Path) -> None:
    state = State(tmp_path / "state", tmp_path / "cache")
    (state.cached("programs") / "kube-1234").write_text("executable")
    (state.cached("programs") / ".kube.lock").touch()
    (state.cached("roots") / "debian-1234" / "usr").mkdir(parents=True)
    up.clean_cache(state)
    left = [path.name for path in state.cache.glob("*/*")]
    assert sorted(left) == [".kube.lock", "lock"]
