"""The archive writer: a container engine reads back what is written, and equal input gives byte-equal output."""

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tfdist_cluster import archive, load
from tfdist_cluster.archive import Copy, Folder, Image, Layer, Link, Text
from tfdist_cluster.errors import ClusterError


def _read(path: Path) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    with tarfile.open(path) as opened:
        files = {member.name: opened.extractfile(member).read() for member in opened}  # type: ignore[union-attr]
    return json.loads(files["manifest.json"]), files


def _entries(layer: Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive.layer_tar(layer))) as opened:
        return {member.name: member for member in opened}


def test_names_in_the_archive_are_digests_of_the_content(tmp_path: Path) -> None:
    archive.write([Image(("a:1",), ({"file": Text("x")},))], tmp_path / "a.tar")
    (entry,), files = _read(tmp_path / "a.tar")
    configuration = files[entry["Config"]]
    assert entry["Config"] == hashlib.sha256(configuration).hexdigest() + ".json"
    plain = gzip.decompress(files[entry["Layers"][0]])
    assert json.loads(configuration)["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]


def test_equal_input_gives_an_equal_archive(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"binary")
    image = Image(("a:1", "b:1"), ({"bin/p": Copy(program), "tmp": Folder(0o1777), "bin/q": Link("p")},), ("/bin/p",))
    archive.write([image], tmp_path / "1.tar")
    program.touch()  # a later modification time
    archive.write([image], tmp_path / "2.tar")
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()


def test_a_layer_that_images_share_is_written_once(tmp_path: Path) -> None:
    shared: Layer = {"file": Text("x")}
    archive.write([Image(("a:1",), (shared,)), Image(("b:1",), (shared, {"own": Text("y")}))], tmp_path / "a.tar")
    manifest, files = _read(tmp_path / "a.tar")
    assert manifest[0]["Layers"][0] == manifest[1]["Layers"][0]
    assert sum(name.endswith(".tar.gz") for name in files) == 2


def test_folders_precede_their_content_and_have_the_usual_modes() -> None:
    entries = _entries({"usr/local/bin/tool": Text("x"), "tmp": Folder(0o1777)})
    assert list(entries) == ["tmp", "usr", "usr/local", "usr/local/bin", "usr/local/bin/tool"]
    assert entries["usr"].mode == 0o755
    assert entries["tmp"].mode == 0o1777


def test_copied_files_are_executable_and_links_stay_links(tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_bytes(b"binary")
    source.chmod(0o600)
    entries = _entries({"bin/p": Copy(source), "bin/q": Link("p")})
    assert entries["bin/p"].mode == 0o755
    assert entries["bin/p"].size == 6
    assert entries["bin/q"].issym()
    assert entries["bin/q"].linkname == "p"


def test_entrypoint_and_environment_reach_the_configuration(tmp_path: Path) -> None:
    archive.write([Image(("a:1",), ({},), ("/x",), ("y",), {"HOME": "/tmp"})], tmp_path / "a.tar")
    (entry,), files = _read(tmp_path / "a.tar")
    configuration = json.loads(files[entry["Config"]])["config"]
    assert configuration["Entrypoint"] == ["/x"]
    assert configuration["Cmd"] == ["y"]
    assert "HOME=/tmp" in configuration["Env"]


def test_load_reads_the_ids_that_were_written(tmp_path: Path) -> None:
    archive.write([Image(("localhost/a:1", "b"), ({"f": Text("x")},))], tmp_path / "a.tar")
    (entry,), _ = _read(tmp_path / "a.tar")
    digest = entry["Config"].removesuffix(".json")
    assert load.images(tmp_path / "a.tar") == [
        load.Archived("localhost/a:1", digest),
        load.Archived("docker.io/library/b:latest", digest),
    ]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("kindest/node:v1", "docker.io/kindest/node:v1"),
        ("localhost/busybox:1", "localhost/busybox:1"),
        ("localhost:5000/busybox", "localhost:5000/busybox:latest"),
        ("registry.k8s.io/coredns/coredns:v1", "registry.k8s.io/coredns/coredns:v1"),
    ],
)
def test_tags_are_completed_as_containerd_does(written: str, stored: str) -> None:
    assert load.canonical(written) == stored


def test_a_file_that_is_not_an_archive_is_rejected_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_text("no archive")
    with pytest.raises(ClusterError, match=r"a\.tar is not an image archive"):
        load.images(tmp_path / "a.tar")
