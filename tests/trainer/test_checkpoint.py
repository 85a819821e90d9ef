"""Checkpoints on disk without TensorFlow: whole or passed over, fenced, and no more than wanted."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tfdist.contract import Role
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, DataCursor, read_record
from tfdist_trainer.errors import CheckpointUnwritableError, StorageError
from tfdist_trainer.fence import Fence, Writer
from tfdist_trainer.writer_heartbeat import WriterHeartbeat

TIME = "2026-01-02T03:04:05.678Z"


def by(attempt: int = 0, job: str = "uid-1", host: str = "worker-0") -> Writer:
    return Writer(job=job, name=job, namespace="ml", role=Role.WORKER, index=0, attempt=attempt, host=host)


def save(prefix: str) -> None:
    Path(f"{prefix}.index").write_bytes(b"index")
    Path(f"{prefix}.data-00000-of-00001").write_bytes(b"values" * 100)


def store(directory: Path, *, keep: int = 3, writer: Writer | None = None) -> CheckpointWriter:
    made = CheckpointWriter(directory, keep=keep, writer=writer or by())
    made.claim()
    return made


def test_the_newest_is_found_and_older_ones_than_wanted_are_removed(tmp_path: Path) -> None:
    writer = store(tmp_path, keep=2)
    for step in (9, 10, 100):
        report = writer.write(DataCursor(step=step, examples=step * 8), TIME, save)
        assert report.path == str(tmp_path / f"checkpoint-{step:09d}")
    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    assert (newest.cursor.step, newest.cursor.examples, newest.writer) == (100, 800, by())
    assert sorted(p.name for p in tmp_path.glob("checkpoint-*")) == ["checkpoint-000000010", "checkpoint-000000100"]


@pytest.mark.parametrize("damage", ["flip", "cut", "missing", "no record", "torn record"])
def test_a_damaged_checkpoint_is_reported_and_skipped(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = store(tmp_path)
    for step in (1, 2):
        writer.write(DataCursor(step=step), TIME, save)
    values = tmp_path / "checkpoint-000000002" / "variables.data-00000-of-00001"
    record = values.with_name("checkpoint.json")
    actions: dict[str, Callable[[], object]] = {
        "flip": lambda: values.write_bytes(b"v" + b"x" + values.read_bytes()[2:]),
        "cut": lambda: os.truncate(values, 10),
        "missing": values.unlink,
        "no record": record.unlink,
        "torn record": lambda: os.truncate(record, 30),
    }
    actions[damage]()
    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    assert newest.cursor.step == 1
    assert "checkpoint-damaged" in capsys.readouterr().out
    with pytest.raises(StorageError, match="checkpoint-000000002"):
        read_record(tmp_path / "checkpoint-000000002")


def test_checkpoints_of_another_job_are_never_removed(tmp_path: Path) -> None:
    # given two checkpoints of another job, which has ended
    other = store(tmp_path, writer=by(job="uid-0"))
    for step in (1, 2):
        other.write(DataCursor(step=step), TIME, save)
    Fence(other.folder, by(job="uid-0")).release()
    # when a job writes more than it keeps
    writer = store(tmp_path, keep=1)
    for step in (3, 4):
        writer.write(DataCursor(step=step), TIME, save)
    # then only its own are removed
    assert [path.name[-1] for path in sorted(tmp_path.glob("checkpoint-*"))] == ["1", "2", "4"]


def test_a_kill_while_a_checkpoint_is_replaced_loses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # given a checkpoint, and a writer that ends between the two renames of a second write of its step
    writer = store(tmp_path, keep=1)
    writer.write(DataCursor(step=1, examples=8), TIME, save)
    rename, folders = Path.rename, list[Path]()

    def rename_one_folder(path: Path, target: Path) -> Path:
        if path.is_dir():
            folders.append(path)
        if len(folders) > 1:
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_one_folder)
    with pytest.raises(KeyboardInterrupt):
        writer.write(DataCursor(step=1, examples=8), TIME, save)
    monkeypatch.undo()
    assert CheckpointReader(tmp_path).newest() is None
    # when the next attempt claims the directory
    newest = store(tmp_path, writer=by(1)).newest()
    # then the checkpoint is back
    assert newest is not None
    assert newest.cursor.examples == 8


def test_an_interrupted_write_leaves_no_checkpoint(tmp_path: Path) -> None:
    writer = store(tmp_path)

    def die(prefix: str) -> None:
        save(prefix)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        writer.write(DataCursor(step=1), TIME, die)
    assert CheckpointReader(tmp_path).newest() is None
    store(tmp_path, writer=by(attempt=1))
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["fence.json", "writer-uid-1.heartbeat"], "the next attempt clears up"


def test_an_earlier_attempt_cannot_write_any_more(tmp_path: Path) -> None:
    old = store(tmp_path, writer=by(attempt=0))
    old.write(DataCursor(step=1), TIME, save)
    store(tmp_path, writer=by(attempt=1, host="worker-0-new"))
    with pytest.raises(CheckpointUnwritableError, match=r"belongs to attempt 1 .*this is attempt 0"):
        old.write(DataCursor(step=2), TIME, save)
    with pytest.raises(CheckpointUnwritableError):
        old.claim()
    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    assert newest.cursor.step == 1


def test_a_claim_between_writing_and_renaming_is_respected(tmp_path: Path) -> None:
    old = store(tmp_path)

    def overtaken(prefix: str) -> None:
        save(prefix)
        Fence(tmp_path, by(attempt=1)).claim()

    with pytest.raises(CheckpointUnwritableError):
        old.write(DataCursor(step=2), TIME, overtaken)
    assert CheckpointReader(tmp_path).newest() is None


def test_a_write_that_a_successor_removes_is_not_a_storage_failure(tmp_path: Path) -> None:
    writer = store(tmp_path)

    def swept_away(prefix: str) -> None:
        store(tmp_path, writer=by(attempt=1))
        Path(prefix).with_name("part").write_bytes(b"values")  # its folder is gone

    with pytest.raises(CheckpointUnwritableError, match=r"belongs to attempt 1"):
        writer.write(DataCursor(step=5, examples=40), TIME, swept_away)


def test_a_new_job_may_take_over_a_directory_and_the_old_one_stops(tmp_path: Path) -> None:
    old = store(tmp_path, writer=by(attempt=3))
    WriterHeartbeat(tmp_path, "uid-1").stop()  # it has ended, as far as a reader can know
    new = store(tmp_path, writer=by(attempt=0, job="uid-2"))
    new.write(DataCursor(step=1), TIME, save)
    with pytest.raises(CheckpointUnwritableError, match="job ml/uid-2"):
        old.write(DataCursor(step=2), TIME, save)


def test_the_final_record_names_the_last_checkpoint_until_training_resumes(tmp_path: Path) -> None:
    writer = store(tmp_path)
    assert writer.final("uid-1") is None
    report = writer.write(DataCursor(step=7), TIME, save)
    writer.finish(report, total_steps=7)
    final = CheckpointReader(tmp_path).final("uid-1")
    assert final is not None
    assert (final.step, final.path, final.total_steps) == (7, report.path, 7)
    writer.begin()
    assert writer.final("uid-1") is None


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(CheckpointUnwritableError, match=r"cannot write .*file/x"):
        store(tmp_path / "file" / "x")
