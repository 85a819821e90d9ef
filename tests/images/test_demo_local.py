"""The demonstration without a cluster: the data that it prepares for each example."""

import sys
from pathlib import Path

import pytest
from support.examples import FOLDER, MANIFESTS, job

from tfdist_cluster.errors import ClusterError
from tfdist_demo import manifests, on_this_machine
from tfdist_demo.volume import Contents

ROOT = Path(__file__).resolve().parents[2]


def test_the_data_of_every_example_is_known() -> None:
    assert on_this_machine.claims(ROOT / on_this_machine.EXAMPLE) == [manifests.CLAIM]
    for name in MANIFESTS:
        path = FOLDER / name.removesuffix("/job.yaml")
        sources = [volume.get("persistentVolumeClaim", {}) for volume in job(name)["spec"].get("volumes", ())]
        wanted = {source["claimName"] for source in sources if source}
        assert set(on_this_machine.claims(path)) == wanted, name


def test_a_missing_example_is_reported_with_the_setting_that_names_another(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="EXAMPLE=FILE names another"):
        on_this_machine.claims(tmp_path / "none.yaml")


def contents(source: Path, *code: str) -> Contents:
    commands = tuple(("python", "-c", each, "/volume/made", "/tmp") for each in code)
    return Contents(claim="c", what="a file", files={"in/a": source}, folder="/tmp", commands=commands)


COPY = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(pathlib.Path(sys.argv[2], 'in/a').read_text())"


def test_a_folder_is_filled_once_by_the_commands_for_the_volume(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "volume"
    source.write_text("one")
    folder.mkdir()
    on_this_machine.fill(contents(source, COPY), folder)
    assert (folder / "made").read_text() == "one"
    (folder / "made").write_text("kept")
    on_this_machine.fill(contents(source, COPY), folder)
    assert (folder / "made").read_text() == "kept"


def test_a_failed_command_is_reported_and_run_again(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "volume"
    source.write_text("one")
    folder.mkdir()
    for _ in range(2):
        with pytest.raises(ClusterError, match="no luck"):
            on_this_machine.fill(contents(source, "import sys; sys.exit('no luck')"), folder)


def test_folders_and_python_of_a_pod_are_replaced_by_those_of_this_machine() -> None:
    places = {"/volume": "/x", "/tmp": "/y"}
    command = ["python", "/volume", "/volume/a", "/volumes", "/tmp", "-m"]
    assert [on_this_machine.here(word, places) for word in command] == [
        sys.executable,
        "/x",
        "/x/a",
        "/volumes",
        "/y",
        "-m",
    ]
