"""An interrupted build or download never counts as complete."""

import json
from pathlib import Path

import pytest

from tfdist_cluster.errors import ClusterError
from tfdist_images import base, builders, store, wheels


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TFDIST_STATE", str(tmp_path))
    monkeypatch.setenv("TFDIST_CACHE", str(tmp_path))
    return tmp_path


def test_an_interrupted_write_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"

    def interrupted() -> None:
        with store.complete_or_absent(path) as new:
            new.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_the_incomplete_file_of_a_killed_write_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    (tmp_path / ".image.tar.partial").write_text("left by a killed run")
    with store.complete_or_absent(path) as new:
        assert not new.exists()
        new.write_text("whole")
    assert path.read_text() == "whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["image.tar"]


def test_a_download_with_a_missing_wheel_is_incomplete() -> None:
    marker = wheels.folder() / "operator-abc.json"
    (wheels.folder() / "a.whl").touch()
    marker.write_text(json.dumps(["a.whl"]))
    assert wheels._is_complete(marker)
    (wheels.folder() / "a.whl").unlink()
    assert not wheels._is_complete(marker)
    assert not wheels._is_complete(wheels.folder() / "other.json")


def test_wheels_are_downloaded_for_the_python_and_c_library_of_the_base(tmp_path: Path) -> None:
    arguments = wheels.pip_arguments(tmp_path, tmp_path / "r.txt", "x86_64")
    assert "--python-version=3.11" in arguments
    assert "--platform=manylinux_2_36_x86_64" in arguments
    assert "--platform=manylinux_2_37_x86_64" not in arguments
    assert "--require-hashes" in arguments


def test_the_base_that_the_user_sets_is_used_and_not_stored(state: Path) -> None:
    asked = {"BASE_IMAGE": "registry.example.com/python:3.11", "IMAGE_BUILDER": "buildah"}
    assert builders.choose(asked) == builders.Choice("buildah", "registry.example.com/python:3.11")
    assert not (state / "images/builder.json").exists()


def test_a_chosen_base_is_stored_because_it_is_part_of_every_name(state: Path) -> None:
    (state / "images").mkdir()
    (state / "images/builder.json").write_text(json.dumps({"builder": "buildah", "base": base.IMAGE}))
    assert builders.choose({}) == builders.Choice("buildah", base.IMAGE)


def test_an_unknown_builder_is_named() -> None:
    with pytest.raises(ClusterError, match="IMAGE_BUILDER is 'podman'"):
        builders.builder_of(builders.Choice("podman", "base"))
