"""A folder of code is packed without what is not code, always to the same bytes, and within a limit."""

import errno
import io
import os
import random
import tarfile
import time
from pathlib import Path

import pytest

from tfdist.api.source import MAX_PARTS
from tfdist.client import code_archive
from tfdist.client.code_archive import PACKED_BYTES, PART_BYTES, CodeArchive, pack_file, pack_folder, pack_with
from tfdist.client.errors import CodeError

RANDOM = random.Random(0).randbytes(PACKED_BYTES + 100_000)  # noqa: S311  bytes that cannot be compressed


def add(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def members(archive: CodeArchive) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive.content), mode="r:gz") as content:
        return {member.name: member for member in content}


def test_two_clones_of_the_same_code_give_the_same_bytes(tmp_path: Path) -> None:
    # given two folders with the same files, created in another order, at another time, with another mode
    add(tmp_path / "a", "train.py", "package/layers.py")
    add(tmp_path / "b", "package/layers.py", "train.py")
    os.utime(tmp_path / "b/train.py", (time.time() - 1e6,) * 2)
    (tmp_path / "b/train.py").chmod(0o600)
    # when
    first, second = pack_folder(tmp_path / "a"), pack_folder(tmp_path / "b")
    # then
    assert first.content == second.content
    assert first.digest == second.digest
    assert first.files == ("package/layers.py", "train.py")
    assert {(m.uid, m.gid, m.uname, m.mtime, m.mode) for m in members(first).values()} == {(0, 0, "", 0, 0o644)}


def test_a_change_of_one_character_changes_the_hash(tmp_path: Path) -> None:
    add(tmp_path, "train.py", text="a")
    first = pack_folder(tmp_path)
    add(tmp_path, "train.py", text="b")

    assert pack_folder(tmp_path).digest != first.digest


def test_what_is_never_code_is_left_out(tmp_path: Path) -> None:
    add(tmp_path, "train.py", ".git/config", "__pycache__/a.pyc", ".venv/bin/python", ".tfdist/job/status.json")
    add(tmp_path, "package/a.py", "package/__pycache__/a.pyc")

    assert pack_folder(tmp_path).files == ("package/a.py", "train.py")


SECRETS = {
    ".env": "WANDB_API_KEY=1", "prod/.env.local": "A=1", "certs/tls.pem": "x", "certs/tls.KEY": "x",
    "id_ed25519": "x", ".ssh/config": "x", ".aws/credentials": "x", ".netrc": "x", ".pypirc": "x", ".npmrc": "x",
    ".git-credentials": "x", ".docker/config.json": "{}", ".kube/config": "x", ".kaggle/kaggle.json": "{}",
    ".huggingface/token": "hf_x", "terraform.tfstate": "{}",
    "gcp.json": '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----"}',
    "cluster.yaml": "apiVersion: v1\nclusters: []\nkind: Config\nusers: []\n",
    "deploy": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAA",
}  # fmt: skip


def test_files_with_credentials_are_left_out_and_named(tmp_path: Path) -> None:
    # given
    code = ("train.py", "environment.py", "id_mapping.py", "keys.py", "config.json", "job.yaml", "token.py")
    add(tmp_path, *code, text='kind: Pod\nprivate_key = "-----BEGIN PRIVATE KEY-----"\n')
    for name, text in SECRETS.items():
        add(tmp_path, name, text=text)
    # when
    archive = pack_folder(tmp_path)
    # then
    assert archive.files == tuple(sorted(code))
    assert archive.secrets == tuple(sorted(SECRETS))
    assert archive.warning is not None
    assert archive.warning.startswith(
        "left out of the code, as they may contain credentials: .aws/credentials, .docker/"
    )
    assert "and 9 more; the option --include PATTERN" in archive.warning
    assert pack_with({"train.py": b""}, tmp_path).secrets == archive.secrets


def test_files_with_credentials_are_included_by_their_patterns(tmp_path: Path) -> None:
    add(tmp_path, "train.py", "certs/ca.pem", ".env")

    archive = pack_folder(tmp_path, include=["certs/*.pem"])

    assert (archive.files, archive.secrets) == (("certs/ca.pem", "train.py"), (".env",))
    assert pack_folder(tmp_path, include=["*"]).warning is None


def test_a_folder_of_credentials_alone_is_rejected(tmp_path: Path) -> None:
    add(tmp_path, ".env")

    with pytest.raises(CodeError, match=r"all files may contain credentials: \.env; the option --include"):
        pack_folder(tmp_path)


def test_patterns_are_those_of_git(tmp_path: Path) -> None:
    # given
    add(tmp_path, "train.py", "data/1.png", "a/data/1.png", "run.log", "a/run.log", "a/kept.log", "b/out/x", "out/x")
    (tmp_path / ".gitignore").write_text("*.log\n/data/\nout/*\n# a comment\n!kept.log\n")
    (tmp_path / "a/.gitignore").write_text("*.png\n")
    # when
    files = pack_folder(tmp_path).files
    # then
    assert files == (".gitignore", "a/.gitignore", "a/kept.log", "b/out/x", "train.py")


def test_the_file_for_this_command_has_the_last_word(tmp_path: Path) -> None:
    add(tmp_path, "train.py", "vocabulary.txt", "notes.md")
    (tmp_path / ".gitignore").write_text("*.txt\n")
    (tmp_path / ".tfdistignore").write_text("!vocabulary.txt\n*.md\n.*ignore\n")

    assert pack_folder(tmp_path).files == ("train.py", "vocabulary.txt")


def test_a_folder_of_a_repository_has_the_patterns_of_the_folders_above(tmp_path: Path) -> None:
    # given
    add(tmp_path, ".gitignore", text="*.log\n")
    add(tmp_path / "repository", ".git/config", "code/src/train.py", "code/src/a.ckpt", "code/src/a.log")
    (tmp_path / "repository/.gitignore").write_text("*.ckpt\n")
    # then those outside of the repository do not apply
    assert pack_folder(tmp_path / "repository/code/src").files == ("a.log", "train.py")


def test_a_folder_above_the_limit_is_rejected_with_its_ten_largest_files(tmp_path: Path) -> None:
    # given
    for number in range(12):
        (tmp_path / f"weights-{number:02}.bin").write_bytes(RANDOM[number : 800_000 + number * 1001])
    # when
    with pytest.raises(CodeError) as rejected:
        pack_folder(tmp_path)
    # then
    first, *largest = str(rejected.value).splitlines()
    assert "9.2 MiB when packed, and 8.0 MiB fit into ConfigMaps; send it through an object store by --code-s" in first
    assert all(way in first for way in (".tfdistignore", ".gitignore", "Git repository", "claim", "image"))
    assert [line.split()[-1] for line in largest] == [f"weights-{number:02}.bin" for number in range(11, 1, -1)]


def test_a_folder_of_data_is_rejected_before_it_is_read(tmp_path: Path) -> None:
    add(tmp_path, "train.py")
    with (tmp_path / "train.tfrecord").open("wb") as file:
        file.truncate(1 << 40)

    fits = r"1048576\.0 MiB, and 256\.0 MiB fit; send it through an object store.*\n *1048576\.0 MiB  train.tfrecord"
    with pytest.raises(CodeError, match=fits):
        pack_folder(tmp_path)
    with pytest.raises(CodeError, match=r"and 1024\.0 MiB fit; name what is not code"):
        pack_folder(tmp_path, store="s3://bucket/code")


@pytest.mark.parametrize(
    ("size", "sizes"),
    [
        (0, [0]),
        (1, [1]),
        (PART_BYTES, [PART_BYTES]),
        (PART_BYTES + 1, [PART_BYTES, 1]),
        (2 * PART_BYTES, [PART_BYTES, PART_BYTES]),
        (PACKED_BYTES, [PART_BYTES] * 9 + [PACKED_BYTES - 9 * PART_BYTES]),
    ],
)
def test_an_archive_is_cut_into_parts_of_one_config_map_each(size: int, sizes: list[int]) -> None:
    archive = CodeArchive(RANDOM[:size], ())

    assert [len(part) for part in archive.parts] == sizes
    assert b"".join(archive.parts) == archive.content
    assert len(archive.parts) <= MAX_PARTS
    assert archive.sha256.startswith(archive.digest)


def test_a_folder_of_too_many_files_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_archive, "CODE_FILES", 2)
    add(tmp_path, "a.py", "b.py", "c.py")

    with pytest.raises(CodeError, match="the code has 3 files, and 2 fit; name what is not code"):
        pack_folder(tmp_path)


def test_code_for_an_object_store_may_be_larger(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(RANDOM)

    archive = pack_folder(tmp_path, store="s3://bucket/code")

    assert len(archive.content) > PACKED_BYTES
    assert archive.store == "s3://bucket/code"
    with pytest.raises(CodeError, match="too large"):
        pack_folder(tmp_path)


def test_links_within_the_folder_are_kept(tmp_path: Path) -> None:
    # given
    add(tmp_path, "package/data/a.txt")
    (tmp_path / "package/current.txt").symlink_to(tmp_path / "package/data/a.txt")
    (tmp_path / "data").symlink_to("package/data")
    # when
    packed = members(pack_folder(tmp_path))
    # then
    assert packed["package/current.txt"].linkname == "data/a.txt"
    assert packed["data"].linkname == "package/data"


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "inner/../../secret"])
def test_a_link_that_points_outside_is_rejected_by_name(target: str, tmp_path: Path) -> None:
    add(tmp_path, "code/train.py", "secret", "code/inner/x")
    (tmp_path / "code/mine.txt").symlink_to(target)

    with pytest.raises(CodeError, match=rf"code/mine.txt: the link points to {target}, outside of the folder"):
        pack_folder(tmp_path / "code")


def test_a_link_to_itself_and_a_pipe_do_not_stop_packing(tmp_path: Path) -> None:
    add(tmp_path, "train.py")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")

    assert pack_folder(tmp_path).files == ("loop", "train.py")


def test_what_cannot_be_read_is_named_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given a file that only another user reads
    def denied(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    add(tmp_path, "package/a.py")
    monkeypatch.setattr(Path, "read_bytes", denied)
    # then
    with pytest.raises(CodeError, match=r"package/a\.py: cannot be read: Permission denied; .*\.tfdistignore$"):
        pack_folder(tmp_path)


def test_patterns_that_are_not_text_are_named(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xff")

    with pytest.raises(CodeError, match=r"\.gitignore: cannot be read: it is not UTF-8"):
        pack_folder(tmp_path)


@pytest.mark.parametrize(("name", "message"), [("absent", "no such folder"), (".", "there is no file to pack")])
def test_a_folder_without_code_is_rejected(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CodeError, match=message):
        pack_folder(tmp_path / name)


def test_one_file_is_packed_alone_with_its_path(tmp_path: Path) -> None:
    add(tmp_path, "jobs/real.py", "other.py")
    (tmp_path / "jobs/train.py").symlink_to("real.py")

    packed = pack_file("jobs/train.py", tmp_path)

    assert packed.files == ("jobs/train.py",)
    assert members(packed)["jobs/train.py"].isfile()
