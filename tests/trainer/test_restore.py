"""What a training begins from (`checkpoint.restore`), on its first attempt and after a restart, without TensorFlow.

Job `new` finds what job `old` has left in the same directory.
"""

from pathlib import Path
from typing import Any

import pytest
from support.checkpoint_writers import Alone

from tfdist.contract import CheckpointSettings, Role
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, DataCursor
from tfdist_trainer.errors import StorageError
from tfdist_trainer.fence import Writer
from tfdist_trainer.writer_heartbeat import WriterHeartbeat

pytestmark = pytest.mark.trainer

TIME = "2026-01-02T03:04:05.678Z"


def write(directory: Path, job: str, *steps: int, keep: int = 9) -> CheckpointWriter:
    writer = Writer(job=job, name=job, namespace="ml", role=Role.WORKER, index=0, attempt=0, host="h")
    made = CheckpointWriter(directory, keep=keep, writer=writer)
    made.claim()
    for step in steps:
        made.write(DataCursor(step=step), TIME, save)
    WriterHeartbeat(directory, job).stop()  # the job has ended
    return made


def save(prefix: str) -> None:
    Path(f"{prefix}.index").write_bytes(b"x")


def start(directory: Path, restore: str) -> tuple[str, int] | None:
    """Return the writer of the checkpoint that job `new` restores, and its step."""
    from tfdist_trainer.initial_checkpoint import initial_checkpoint  # noqa: PLC0415  it imports TensorFlow

    gang: Any = Alone()
    found = initial_checkpoint(gang, CheckpointSettings(directory=str(directory), restore=restore), "new")
    return (found[1].writer.job, found[1].cursor.step) if found else None


@pytest.mark.parametrize(
    ("restore", "first", "restarted"),
    [
        ("Latest", ("old", 30), ("old", 30)),
        ("None", None, ("new", 5)),
        ("checkpoint-000000010", ("old", 10), ("new", 5)),
        ("{folder}/checkpoint-000000020", ("old", 20), ("new", 5)),
    ],
)
def test_a_restarted_job_resumes_from_its_own_checkpoint(
    restore: str, first: Any, restarted: Any, tmp_path: Path
) -> None:
    restore = restore.replace("{folder}", str(tmp_path))
    write(tmp_path, "old", 10, 20, 30)
    assert start(tmp_path, restore) == first
    write(tmp_path, "new", 5)
    assert start(tmp_path, restore) == restarted


def test_a_path_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"checkpoint\.restore: .*/elsewhere: not a complete checkpoint"):
        start(tmp_path, "elsewhere")


def test_checkpoints_of_others_that_are_further_are_set_aside_and_not_in_the_way(tmp_path: Path) -> None:
    write(tmp_path, "old", 10, 20, 30)
    new = write(tmp_path, "new", keep=2)
    new.set_aside(above=10)
    names = ["checkpoint-000000010", "fence.json", "set-aside-by-new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    aside = CheckpointReader(tmp_path / "set-aside-by-new").newest()
    assert aside is not None
    assert aside.cursor.step == 30, "nothing is lost"
    write(tmp_path, "new", 12, 14, keep=2)
    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    assert (newest.writer.job, newest.cursor.step) == ("new", 14)
