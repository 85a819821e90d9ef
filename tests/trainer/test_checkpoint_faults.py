"""Faults of the storage at each call, on volumes and in object stores, without a training.

Given a job that has saved steps 100 and 200, and a fault in one kind of call. When an attempt starts and saves step
300, then it ends with an error of the storage that names the place, or does what it would do without the fault: it
never begins at an earlier step. The newest checkpoint that can be read survives; when the fault is over, the next
attempt resumes from it.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.checkpoint_writers import TIME, VALUES, Alone, by, ended, store, write
from support.faulty_server import Fault, FaultyServer
from support.object_servers import GS_IS_LONG, ObjectServer

from tfdist.contract import CheckpointSettings, ExitCode
from tfdist_trainer import errors, evaluation_store, stored_checkpoint, writer_heartbeat
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError, StorageError
from tfdist_trainer.evaluation_store import EvaluationStore
from tfdist_trainer.storage.object_folder import ObjectFolder
from tfdist_trainer.storage.object_store import Bucket
from tfdist_trainer.storage.object_urls import split

DATA = "variables.data-00000-of-00001"
TEMPORARY = (errno.EIO, errno.ESTALE, errno.EACCES, errno.ENOSPC)
"""The errors of a volume that leave open whether a file exists."""


def resume(writer: CheckpointWriter) -> int:
    """Return the step from which a gang of one begins; 0 without a checkpoint."""
    from tfdist_trainer.initial_checkpoint import initial_checkpoint  # noqa: PLC0415  it imports TensorFlow

    gang: Any = Alone()
    settings = CheckpointSettings(directory=str(writer.folder))
    found = initial_checkpoint(gang, settings, by().job, writer)
    return found[1].cursor.step if found else 0


def steps(directory: str | Path) -> list[int]:
    return [record.cursor.step for record in CheckpointReader(directory).records()]


def readable(directory: str | Path | ObjectFolder) -> int:
    record = CheckpointReader(directory).newest()
    return record.cursor.step if record else 0


@contextmanager
def failing(name: str, call: Callable[..., Any], number: int, target: str = "") -> Iterator[None]:
    """Let `call`, the attribute `name` of `Path` or of a module, fail for paths that match `target`."""
    owner, _, attribute = name.rpartition(".")
    place: Any = {"Path": Path, "os": os, "stored_checkpoint": stored_checkpoint}[owner]

    def fail(path: Any, *args: Any, **kwargs: Any) -> Any:
        if re.search(target, str(path)):
            raise OSError(number, os.strerror(number), str(path))
        return call(path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, attribute, fail)
        yield


CALLS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "list the directory": ("Path.iterdir", Path.iterdir, ""),
    "read the record": ("Path.read_text", Path.read_text, "checkpoint.json"),
    "read the claim": ("Path.read_text", Path.read_text, "fence.json"),
    "read the values": ("stored_checkpoint.file_record", stored_checkpoint.file_record, DATA),
    "write": ("Path.open", Path.open, r"\.tmp-"),
    "flush": ("os.fsync", os.fsync, ""),
    "rename": ("Path.rename", Path.rename, ""),
    "rename the checkpoint": ("Path.rename", Path.rename, r"/\.tmp-checkpoint-\d+-1-worker-0$"),
    "delete, by a rename": ("Path.rename", Path.rename, "checkpoint-000000100$"),
    "delete": ("os.unlink", os.unlink, ""),
}


@pytest.mark.parametrize("number", TEMPORARY, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", CALLS)
def test_on_a_volume_an_error_of_any_call_costs_no_checkpoint(call: str, number: int, tmp_path: Path) -> None:
    write(store(str(tmp_path), keep=2), 100, 200)
    with failing(*CALLS[call][:2], number, CALLS[call][2]):
        try:
            writer = store(str(tmp_path), keep=2, writer=by(1))
            assert resume(writer) == 200
            write(writer, 300)
        except (StorageError, CheckpointUnwritableError) as error:
            failure = errors.classify(error)
            assert failure.exit_code in {ExitCode.STORAGE, ExitCode.CHECKPOINT_UNWRITABLE}
            assert str(tmp_path) in failure.message
            assert os.strerror(number) in failure.message
    newest = readable(tmp_path)
    assert newest in {200, 300}
    assert resume(store(str(tmp_path), keep=2, writer=by(2))) == newest


READS = {"list the directory", "read the record", "read the claim", "read the values"}


@pytest.mark.parametrize("number", TEMPORARY, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", sorted(READS))
def test_on_a_volume_what_cannot_be_read_is_a_failure_of_the_storage_with_its_place_and_remedy(
    call: str, number: int, tmp_path: Path
) -> None:
    write(store(str(tmp_path)), 100, 200)
    with failing(*CALLS[call][:2], number, CALLS[call][2]), pytest.raises(StorageError) as caught:
        resume(store(str(tmp_path), writer=by(1)))
    failure = errors.classify(caught.value)
    assert failure.exit_code is ExitCode.STORAGE
    assert f"cannot be read: {os.strerror(number)} ({errno.errorcode[number]}); " in failure.message
    assert ("let user" if number == errno.EACCES else "check the volume and its server") in failure.message


DAMAGE: dict[str, Callable[[Path, Path], object]] = {
    "a file of the record is absent": lambda values, _: values.unlink(),
    "a short file": lambda values, _: os.truncate(values, 10),
    "a flipped bit": lambda values, _: values.write_bytes(b"\x01" + VALUES[1:]),
    "a torn record": lambda _, record: os.truncate(record, 10),
    "no record": lambda _, record: record.unlink(),
}


def damage(directory: Path, kind: str, *damaged: int) -> None:
    for step in damaged:
        folder = directory / f"checkpoint-{step:09d}"
        DAMAGE[kind](folder / DATA, folder / "checkpoint.json")


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("kind", DAMAGE)
def test_the_checkpoint_that_was_just_written_stays_whatever_was_damaged(kind: str, keep: int, tmp_path: Path) -> None:
    # given an old checkpoint that the evaluation protects, and newer ones that are all damaged
    write(store(str(tmp_path), keep=9), 40, 100, 200, 300)
    damage(tmp_path, kind, 100, 200, 300)
    # when the next attempt resumes and saves steps before the damaged ones
    writer = store(str(tmp_path), keep=keep, writer=by(1))
    assert resume(writer) == 40
    for step in (50, 60, 70, 80):
        write(writer, step)
        # then the newest is the one that was just written
        assert readable(tmp_path) == step
    assert steps(tmp_path) == [50, 60, 70, 80][-keep:], "damaged ones do not count towards `keep`"
    # and what is damaged is set aside, for whoever can repair it
    aside = sorted(path.name for path in (tmp_path / "damaged").iterdir())
    assert aside == ["checkpoint-000000100", "checkpoint-000000200", "checkpoint-000000300"]


def test_a_later_checkpoint_that_is_unread_neither_counts_nor_is_removed(tmp_path: Path) -> None:
    write(store(str(tmp_path), keep=3), 100, 200)
    writer = store(str(tmp_path), keep=1, writer=by(1))
    write(writer, 50)
    assert steps(tmp_path) == [50, 100, 200]


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_job_whose_checkpoints_are_all_damaged_stops_with_words(kind: str, tmp_path: Path) -> None:
    write(store(str(tmp_path)), 100, 200)
    damage(tmp_path, kind, 100, 200)
    with pytest.raises(StorageError) as caught:
        resume(store(str(tmp_path), writer=by(1)))
    failure = errors.classify(caught.value)
    assert failure.exit_code is ExitCode.STORAGE
    assert failure.message.startswith(
        f"checkpoint.directory: {tmp_path}: all checkpoints that this job can resume from are damaged; "
        "restore the volume or bucket, or delete the directory to begin at step 0. It does not begin at step 0 by"
    )
    for step in (100, 200):
        assert f"{tmp_path}/checkpoint-{step:09d}: " in failure.message
    assert [path.name for path in sorted(tmp_path.glob("checkpoint-*"))] == [f"checkpoint-{n:09d}" for n in (100, 200)]


def test_a_job_whose_own_are_all_damaged_does_not_return_to_that_of_another_job_by_itself(tmp_path: Path) -> None:
    write(store(str(tmp_path), writer=by(name="old")), 30)
    ended(str(tmp_path), "old")
    write(store(str(tmp_path)), 100)
    damage(tmp_path, "a flipped bit", 100)
    with pytest.raises(StorageError, match=r"It does not begin at step 30, of attempt 0 of job ml/old .* by itself"):
        resume(store(str(tmp_path), writer=by(1)))


def test_a_new_job_begins_in_a_directory_where_others_have_left_damaged_checkpoints(tmp_path: Path) -> None:
    write(store(str(tmp_path), writer=by(name="old")), 30, 40)
    ended(str(tmp_path), "old")
    damage(tmp_path, "a flipped bit", 30)
    damage(tmp_path, "a torn record", 40)
    assert resume(store(str(tmp_path))) == 0
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-000000030"], "left to job `old`"


def test_renames_that_fail_while_a_step_is_replaced_lose_no_checkpoint(tmp_path: Path) -> None:
    writer = store(str(tmp_path), keep=1)
    write(writer, 100)
    with failing("Path.rename", Path.rename, errno.EIO, r"/\.tmp-checkpoint-\d+-0-worker-0$"):
        for _ in range(2):
            with pytest.raises(StorageError):
                write(writer, 100)
    assert resume(store(str(tmp_path), writer=by(1))) == 100


# What else is read from the directory: an error never means "absent" there, which would take over the directory of a
# running job, adapt the preprocessing again, evaluate again, or name another best checkpoint.


@pytest.mark.parametrize("number", TEMPORARY, ids=errno.errorcode.get)
def test_a_heartbeat_that_cannot_be_read_is_not_that_of_a_job_that_has_ended(number: int, tmp_path: Path) -> None:
    store(str(tmp_path))
    with failing("Path.iterdir", Path.iterdir, number), pytest.raises(StorageError, match="cannot be read"):
        writer_heartbeat.has_ended(tmp_path, "uid-of-first", lambda _: None)


@pytest.mark.parametrize("number", TEMPORARY, ids=errno.errorcode.get)
def test_results_of_evaluations_that_cannot_be_read_are_not_absent(number: int, tmp_path: Path) -> None:
    evaluations = EvaluationStore(tmp_path, "uid-of-first", tag="evaluator-0")
    evaluations.record(
        evaluation_store.StoredEvaluation(
            step=1, checkpoint="/c", metrics={}, examples=1, time=TIME, job="uid-of-first", saved_at=TIME
        ),
        {},
    )
    with failing("Path.iterdir", Path.iterdir, number), pytest.raises(StorageError, match="cannot be read"):
        evaluations.results()
    with failing("Path.read_text", Path.read_text, number), pytest.raises(StorageError, match="cannot be read"):
        evaluations.results()


@pytest.mark.parametrize("number", TEMPORARY, ids=errno.errorcode.get)
def test_a_checkpoint_whose_record_cannot_be_read_still_exists(number: int, tmp_path: Path) -> None:
    """Otherwise another one is named as the best, and the best is removed."""
    write(store(str(tmp_path)), 100)
    with failing("Path.read_text", Path.read_text, number), pytest.raises(StorageError, match="cannot be read"):
        CheckpointReader(tmp_path).has(100, TIME)


@pytest.mark.parametrize("number", TEMPORARY, ids=errno.errorcode.get)
def test_nothing_is_removed_while_the_best_cannot_be_read(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = store(str(tmp_path), keep=1)
    write(writer, 100)
    with failing("Path.read_text", Path.read_text, number, "best.json"):
        write(writer, 200)
    assert steps(tmp_path) == [100, 200]
    assert "file-unreadable" in capsys.readouterr().out


def test_a_file_that_is_replaced_on_another_node_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    """NFS answers with ESTALE once; the evaluator reads the records each second."""
    write(store(str(tmp_path)), 100)
    stale = [True]
    read = Path.read_text

    def once(path: Path, *args: Any, **kwargs: Any) -> str:
        if stale and stale.pop():
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return read(path, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", once)
        assert steps(tmp_path) == [100]


# Object stores: the server or the connection fails at each kind of request. Denied access is an error of the
# configuration, as everywhere with object stores.

REQUESTS = {
    "list": "list-type",
    "read or write the claim": "fence.json",
    "read the record": "checkpoint-000000200/checkpoint.json",
    "read the values": "checkpoint-000000200/0-worker-0-",
    "write": "PUT",
    "write the record": "checkpoint-000000300/checkpoint.json",
    "delete": "?delete",
}
SERVER_FAULTS = {
    "503": Fault("status", 1000, status=503),
    "access denied": Fault("status", 1000, status=403),
    "no answer": Fault("lose answer", 1000),
}


def impatient(url: str) -> ObjectFolder:
    """Return a folder whose client soon gives up."""
    retry = {"max_retries": 1, "retry_timeout": timedelta(seconds=60)}
    backoff = {"init_backoff": timedelta(milliseconds=1), "max_backoff": timedelta(milliseconds=2), "base": 2}
    bucket, key = split(url)
    return ObjectFolder(Bucket(bucket, retry=retry | {"backoff": backoff}, writes=True), key)


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated at once."""
    monkeypatch.setattr("tfdist_trainer.storage.object_store._pause", lambda _: 0.0)


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("fault", SERVER_FAULTS)
@pytest.mark.parametrize("request_", REQUESTS)
@GS_IS_LONG
def test_in_an_object_store_an_error_of_any_request_costs_no_checkpoint(
    request_: str, fault: str, url: str, proxy: FaultyServer
) -> None:
    write(store(url, keep=1), 100, 200)
    proxy.faults = [replace(SERVER_FAULTS[fault], target=REQUESTS[request_])]
    try:
        writer = store(impatient(url), keep=1, writer=by(1))
        assert resume(writer) == 200
        write(writer, 300)
    except (StorageError, ConfigurationError) as error:
        failure = errors.classify(error)
        expected = ExitCode.CONFIGURATION if fault == "access denied" else ExitCode.STORAGE
        assert failure.exit_code is expected
        assert url.rpartition("/")[0].partition("//")[2].partition("/")[0] in failure.message
    proxy.faults = []
    newest = readable(url)
    assert newest in {200, 300}
    assert resume(store(url, keep=1, writer=by(2))) == newest


def without_files(url: str, server: ObjectServer, step: int) -> None:
    """What a replaced writer leaves that writes its record when its successor has removed the files."""
    bucket, key = split(url)
    for each in Bucket(bucket).tree(f"{key}/checkpoint-{step:09d}/"):
        if not each.key.endswith("checkpoint.json"):
            server.delete(each.key)


@GS_IS_LONG
def test_a_record_without_files_neither_stops_a_job_nor_counts_towards_keep(
    url: str, object_server: ObjectServer
) -> None:
    write(store(url), 100, 200)
    without_files(url, object_server, 200)
    writer = store(url, keep=1, writer=by(1))
    assert resume(writer) == 100
    write(writer, 150)
    assert readable(url) == 150
    assert steps(url) == [150]
    assert steps(f"{url}/damaged") == [200]


@GS_IS_LONG
def test_a_record_without_files_is_no_progress_where_another_job_has_an_older_checkpoint(
    url: str, object_server: ObjectServer
) -> None:
    write(store(url, writer=by(name="old")), 30)
    ended(url, "old")
    write(store(url), 100)
    without_files(url, object_server, 100)
    assert resume(store(url, writer=by(1))) == 30


@GS_IS_LONG
def test_a_job_whose_checkpoints_in_a_store_are_all_damaged_stops_with_words(
    url: str, object_server: ObjectServer
) -> None:
    write(store(url), 100)
    bucket, key = split(url)
    (values,) = (each.key for each in Bucket(bucket).tree(f"{key}/checkpoint-000000100/") if each.key.endswith(DATA))
    object_server.put(values, VALUES[:10])
    with pytest.raises(StorageError, match=rf"{url}: all checkpoints .* {url}/checkpoint-000000100: {DATA} is damaged"):
        resume(store(url, writer=by(1)))
