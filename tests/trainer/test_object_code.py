"""Code in an object store: uploaded once by the client, fetched by the init container; errors name the object."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.object_servers import BUCKET, ObjectServer

from tfdist.client.code_archive import CodeArchive, pack_folder
from tfdist.client.code_store import CodeUpload
from tfdist.client.errors import CodeError
from tfdist.contract import ExitCode
from tfdist_trainer.fetch import main
from tfdist_trainer.storage.object_store import Bucket

RANDOM = random.Random(0).randbytes(9 << 20)  # noqa: S311  bytes that cannot be compressed


@pytest.fixture
def store(object_server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a folder of the test in a bucket, for which the environment of this process has credentials."""
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(object_server.writable())
        for name, value in object_server.writable_environment(url).items():
            monkeypatch.setenv(name, value)
        yield object_server.address(tmp_path.name)


@pytest.fixture
def archive(store: str, tmp_path: Path) -> CodeArchive:
    """Code that is too large for ConfigMaps."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("print()")
    (tmp_path / "src/weights.bin").write_bytes(RANDOM)
    return pack_folder(tmp_path / "src", store=store)


@pytest.fixture
def upload(archive: CodeArchive, store: str) -> CodeUpload:
    """The code, uploaded."""
    made = CodeUpload.of(archive, store)
    made.run()
    return made


def test_code_is_uploaded_and_fetched(upload: CodeUpload, store: str, tmp_path: Path) -> None:
    assert upload.url == f"{store}/{upload.sha256}.tar.gz"
    assert main(["--sha256", upload.sha256, upload.url, str(tmp_path / "target")]) == ExitCode.DONE
    assert (tmp_path / "target/weights.bin").read_bytes() == RANDOM
    assert {path.name for path in (tmp_path / "target").iterdir()} == {"train.py", "weights.bin"}


def test_code_that_is_stored_is_not_uploaded_again_unless_it_was_cut(upload: CodeUpload) -> None:
    # given an object
    bucket, key = Bucket(f"{upload.url.partition('://')[0]}://{BUCKET}"), upload.url.partition(f"{BUCKET}/")[2]
    stored = bucket.get(key)
    # when the same code is uploaded
    upload.run()
    # then it is the same object
    assert bucket.get(key) == stored
    # and an object of another length is replaced
    bucket.put(key, b"cut")
    upload.run()
    assert bucket.find(key).size == len(upload.content)


def test_an_object_with_another_hash_is_rejected(
    upload: CodeUpload, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = "0" * 64

    assert main(["--sha256", other, upload.url, str(tmp_path / "target")]) == ExitCode.DATA_MALFORMED
    error = capsys.readouterr().err
    assert f"training.source.object: {upload.url} has the SHA-256 {upload.sha256}, and " in error
    assert f"training.source.object.sha256 is {other}: " in error
    assert list((tmp_path / "target").iterdir()) == []


def test_an_object_that_is_missing_is_named(store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{store}/absent.tar.gz"

    assert main(["--sha256", "0" * 64, url, str(tmp_path / "target")]) == ExitCode.DATA_MISSING
    assert f"training.source.object.url: {url}: there is no such object" in capsys.readouterr().err


def test_a_job_without_the_right_to_read_the_code_names_the_object(
    upload: CodeUpload,
    object_server: ObjectServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if object_server.scheme == "gs":
        pytest.skip("the server like Google's accepts each request")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    assert main(["--sha256", upload.sha256, upload.url, str(tmp_path / "target")]) == ExitCode.CONFIGURATION
    error = capsys.readouterr().err
    assert f"training.source.object.url: {upload.url}: access is denied: " in error
    assert "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY from a Secret by envFrom" in error


def test_a_user_without_the_right_to_write_gets_the_remedy(
    archive: CodeArchive, store: str, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    if object_server.scheme == "gs":
        pytest.skip("as above")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    with pytest.raises(CodeError) as rejected:
        CodeUpload.of(archive, store).run()
    assert str(rejected.value).startswith(f"{store}/{archive.sha256}.tar.gz: the code cannot be uploaded: HTTP 403")
    assert "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION" in str(rejected.value)
    assert "wrong" not in str(rejected.value)


def test_a_user_without_credentials_gets_the_remedy(
    archive: CodeArchive, store: str, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given no variables, and a metadata service that does not answer
    if object_server.scheme == "gs":
        pytest.skip("as above")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    # then
    with pytest.raises(CodeError, match=r"no credentials were found; set AWS_ACCESS_KEY_ID"):
        CodeUpload.of(archive, store).run()


def test_a_bucket_that_is_missing_is_named(archive: CodeArchive, store: str) -> None:
    upload = CodeUpload.of(archive, store.replace(BUCKET, "absent-bucket"))

    with pytest.raises(CodeError, match=r"://absent-bucket/.*: the code cannot be uploaded: there is no such bucket"):
        upload.run()
