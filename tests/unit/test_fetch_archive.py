"""The init container of `training.source.archive` unpacks a folder, and rejects a damaged or hostile archive."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tfdist.client.code_archive import pack_folder
from tfdist.contract import CODE_BYTES, ExitCode
from tfdist_trainer.fetch import main

Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, content: bytes = b"", **fields: Any) -> Member:
    """Return a member of an archive; by default a file."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, content


def archive(folder: Path, *members: Member) -> Path:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        for info, content in members:
            made.addfile(info, io.BytesIO(content))
    path = folder / "code.tar.gz"
    path.write_bytes(buffer.getvalue())
    return path


def test_a_packed_folder_is_unpacked_with_its_subfolders(tmp_path: Path) -> None:
    # given a folder, and what an interrupted attempt has left
    (tmp_path / "code/package/data").mkdir(parents=True)
    (tmp_path / "code/train.py").write_text("import package")
    (tmp_path / "code/package/__init__.py").write_text("")
    (tmp_path / "code/package/data/labels.txt").write_text("ä")
    (tmp_path / "code/run.sh").write_text("#!/bin/sh")
    (tmp_path / "code/run.sh").chmod(0o700)
    (tmp_path / "code/current.txt").symlink_to("package/data/labels.txt")
    target = tmp_path / "target"
    target.mkdir()
    (target / "left").write_text("x")
    # when
    packed = tmp_path / "code.tar.gz"
    packed.write_bytes(pack_folder(tmp_path / "code").content)
    assert main([str(packed), str(target)]) == ExitCode.DONE
    # then
    files = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
    assert files == {"train.py", "run.sh", "current.txt", "package/__init__.py", "package/data/labels.txt"}
    assert (target / "current.txt").read_text() == "ä"
    assert (target / "run.sh").stat().st_mode & 0o111
    assert not (target / "train.py").stat().st_mode & 0o111


@pytest.fixture(params=["with filters", "without filters"])
def python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python as it is, and as before 3.11.4, in which `tarfile` has no filters."""
    if request.param == "without filters":
        for name in ("data_filter", "FilterError"):
            monkeypatch.delattr(tarfile, name, raising=False)


def link(name: str, target: str) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=target)


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (member("../outside.py", b"x"), "'../outside.py' is not a path within the folder"),
        (member("package/../../outside.py", b"x"), "is not a path within the folder"),
        (member("{tmp}/outside.py", b"x"), "outside.py' is not a path within the folder"),
        (member("link", type=tarfile.SYMTYPE, linkname="../outside.py"), "the link 'link' leads out of the folder"),
        (member("link", type=tarfile.SYMTYPE, linkname="/etc"), "the link 'link' leads out of the folder"),
        (member("link", type=tarfile.LNKTYPE, linkname="../outside.py"), "'link' is neither a file nor a directory"),
        (member("pipe", type=tarfile.FIFOTYPE), "'pipe' is neither a file nor a directory"),
        (member("device", type=tarfile.CHRTYPE), "'device' is neither a file nor a directory"),
    ],
    ids=["parent", "parent below", "absolute", "link out", "absolute link", "hard link", "pipe", "device"],
)
def test_a_hostile_member_is_rejected_in_one_line_and_nothing_is_written_outside(
    bad: Member, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    bad[0].name = bad[0].name.replace("{tmp}", str(tmp_path))
    target = tmp_path / "target"
    target.mkdir()
    # when
    code = main([str(archive(tmp_path, member("train.py"), bad)), str(target)])
    # then
    assert code == ExitCode.DATA_MALFORMED
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"target", "code.tar.gz"}


@pytest.mark.usefixtures("python")
@pytest.mark.parametrize(
    "members",
    [
        [link("a", "."), link("b", "a/../.."), member("b/outside.py", b"x")],
        [link("a", "."), link("b", "a/.."), member("outside.py", b"x")],
        [link("d/e/s", "../.."), link("d/e/s/l", "../../outside.py")],
        [link("a", "sub"), member("a/outside.py", b"x")],
        [link("d/l", "../../outside.py")],
    ],
)
def test_links_that_lead_outside_are_rejected_before_anything_is_written(members: list[Member], tmp_path: Path) -> None:
    packed = archive(tmp_path, *members)
    (tmp_path / "target").mkdir()

    assert main([str(packed), str(tmp_path / "target")]) == ExitCode.DATA_MALFORMED
    assert list((tmp_path / "target").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"target", "code.tar.gz"}


@pytest.mark.usefixtures("python")
def test_links_within_the_folder_are_unpacked(tmp_path: Path) -> None:
    packed = archive(tmp_path, member("data/classes.txt", b"three"), link("package/classes.txt", "../data/classes.txt"))
    (tmp_path / "target").mkdir()

    assert main([str(packed), str(tmp_path / "target")]) == 0
    assert (tmp_path / "target/package/classes.txt").read_text() == "three"


def one_large_file(folder: Path) -> Path:
    return archive(folder, member("zeros", bytes(CODE_BYTES + 1)))


def a_large_header(folder: Path) -> Path:
    return archive(folder, member("a", pax_headers={"comment": "0" * CODE_BYTES}))


def many_empty_files(folder: Path) -> Path:
    content = member("a")[0].tobuf()
    path = folder / "code.tar.gz"
    path.write_bytes(gzip.compress(content * (CODE_BYTES // len(content) + 1)))
    return path


def a_sparse_file(folder: Path) -> Path:
    headers = {"GNU.sparse.map": f"0,0,{1 << 40},0", "GNU.sparse.size": str(1 << 40)}
    return archive(folder, member("hole", pax_headers=headers))


@pytest.mark.parametrize("bomb", [one_large_file, a_large_header, many_empty_files, a_sparse_file])
def test_a_bomb_is_rejected_before_anything_is_written(
    bomb: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "target").mkdir()

    assert main([str(bomb(tmp_path)), str(tmp_path / "target")]) == ExitCode.DATA_MALFORMED
    assert "unpacked it is larger than 256 MiB" in capsys.readouterr().err
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize("change", [lambda whole: whole[:-20], lambda _: b"text", lambda _: gzip.compress(b"x" * 512)])
def test_a_damaged_archive_is_rejected_in_one_line(
    change: Callable[[bytes], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = archive(tmp_path, member("train.py", b"x" * 1000))
    packed.write_bytes(change(packed.read_bytes()))

    assert main([str(packed), str(tmp_path / "target")]) == ExitCode.DATA_MALFORMED
    error = capsys.readouterr().err
    assert "training.source.archive: code.tar.gz is damaged: " in error
    assert error.count("\n") == 1


def test_an_archive_of_too_many_files_is_rejected_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tfdist_trainer.archive.CODE_FILES", 2)

    packed = archive(tmp_path, *(member(f"{number}.py") for number in range(3)))

    assert main([str(packed), str(tmp_path / "target")]) == ExitCode.DATA_MALFORMED
    assert "training.source.archive: code.tar.gz has more than 2 files; pack the folder" in capsys.readouterr().err
    assert list((tmp_path / "target").iterdir()) == []


@pytest.fixture
def parts(tmp_path: Path) -> tuple[str, list[str]]:
    """Return the hash of an archive, and the paths of its three parts."""
    packed = archive(tmp_path, member("train.py", b"print()"))
    content = packed.read_bytes()
    packed.unlink()
    names = []
    for number, part in enumerate((content[:40], content[40:41], content[41:])):
        path = tmp_path / f"code.tar.gz.{number}"
        path.write_bytes(part)
        names.append(str(path))
    return hashlib.sha256(content).hexdigest(), names


def test_the_parts_of_an_archive_are_joined_in_their_order(parts: tuple[str, list[str]], tmp_path: Path) -> None:
    sha256, names = parts

    assert main(["--sha256", sha256, *names, str(tmp_path / "target")]) == 0
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["train.py"]


def test_a_part_that_is_missing_is_named(
    parts: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sha256, names = parts
    Path(names[1]).unlink()

    assert main(["--sha256", sha256, *names, str(tmp_path / "target")]) == ExitCode.DATA_MISSING
    error = capsys.readouterr().err
    assert "training.source.archive: of 3 parts this is missing: code.tar.gz.1; pack the folder again" in error


def test_an_archive_with_another_hash_is_rejected_before_anything_is_written(
    parts: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # given parts in a wrong order
    sha256, (first, second, third) = parts
    # when
    code = main(["--sha256", sha256, first, third, second, str(tmp_path / "target")])
    # then
    assert code == ExitCode.DATA_MALFORMED
    error = capsys.readouterr().err
    assert "training.source.archive: the archive of 3 parts has the SHA-256 " in error
    assert f"training.source.archive.sha256 is {sha256}: it was replaced or cut; pack the folder again" in error
    assert list((tmp_path / "target").iterdir()) == []


def test_a_missing_key_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "code.tar.gz"), str(tmp_path / "target")]) == ExitCode.DATA_MISSING
    assert "the ConfigMap has no key code.tar.gz" in capsys.readouterr().err
