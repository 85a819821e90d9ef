"""What can go wrong around a training: it ends with the code of its cause, never hangs, and nothing is lost."""

import os
import re
import resource
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tfdist.contract import ExitCode, Phase
from tfdist_trainer.checkpoint import VARIABLES, CheckpointReader, FinalRecord, read_record

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

FOREVER = {"steps": 10_000_000, "batchSizePerReplica": 1}


def job(directory: Path, attempt: int = 0, **settings: int) -> dict[str, Any]:
    return {"checkpoint": {"directory": str(directory)} | settings, "attempt": attempt}


def data_file(checkpoint: str) -> Path:
    return next(Path(checkpoint).glob(f"{VARIABLES}.data-*"))


def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    replica = launch(1, config=config | FOREVER, job=job(tmp_path, everySteps=500))
    saved = replica.progress_when(lambda report: report.last_checkpoint is not None).last_checkpoint
    assert saved is not None
    # No file can become larger than this any more, as none can on a disk with so little left.
    least = data_file(saved.path).stat().st_size - 1
    resource.prlimit(replica.processes[0].pid, resource.RLIMIT_FSIZE, (least, least))
    assert replica.wait() == [ExitCode.STORAGE], replica.output()
    last = replica.termination()
    assert last.reason == "Storage"
    assert last.message.startswith(f"checkpoint.directory: cannot write {tmp_path}")
    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    assert last.last_checkpoint is not None
    assert newest.cursor.step == last.last_checkpoint.step


@pytest.mark.parametrize("place", ["{folder}/file/checkpoints", "/sys/checkpoints"], ids=["file", "read-only"])
def test_a_directory_that_cannot_be_written_is_named(
    launch: "Launch", config: dict[str, Any], tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("no directory")
    directory = place.replace("{folder}", str(tmp_path))
    replica = launch(1, config=config, job=job(Path(directory)))
    assert replica.wait() == [ExitCode.CHECKPOINT_UNWRITABLE], replica.output()
    assert replica.termination().reason == "CheckpointUnwritable"
    assert f"cannot write {directory}" in replica.termination().message


def test_a_chief_whose_successor_has_begun_writes_no_more(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    first = launch(1, config=config | FOREVER, job=job(tmp_path, everySteps=200))
    first.progress_when(lambda report: report.last_checkpoint is not None)
    second = launch(1, config=config | FOREVER, job=job(tmp_path, attempt=1, everySteps=200))
    assert first.wait() == [ExitCode.CHECKPOINT_UNWRITABLE], first.output()
    assert re.search(r"belongs to attempt 1 .*; this is attempt 0", first.termination().message)
    begun = second.progress_when(lambda report: (report.step or 0) > 0).step or 0
    second.progress_when(lambda report: report.last_checkpoint is not None and report.last_checkpoint.step > begun)
    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    assert newest.writer.attempt == 1


def test_a_file_that_is_gone_while_it_is_needed_is_named(
    launch: "Launch", config: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    file = Path(shutil.copy(data / "train-0.tfrecord", tmp_path))
    own = {"data": {"train": f"{tmp_path}/*.tfrecord"}, "epochs": 1_000_000}
    replica = launch(1, config=config | own)
    replica.progress_when(lambda report: (report.step or 0) > 0)
    file.unlink()
    assert replica.wait() == [ExitCode.DATA_MISSING], replica.output()
    assert replica.termination().message == f"{file}: cannot be opened any more: No such file or directory"


def test_a_chief_killed_while_it_saves_and_a_torn_checkpoint_cost_no_example(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    first = launch(2, config=config | FOREVER, job=job(tmp_path / "other"))
    first.progress_when(lambda report: report.phase is Phase.COMPILING, index=1)
    first.processes[0].send_signal(signal.SIGKILL)
    assert first.wait()[1] == ExitCode.PEER_LOST, first.output(1)

    second = launch(2, config=config | {"epochs": 1_000_000}, job=job(tmp_path, everySteps=2, keep=5))
    second.progress_when(lambda report: report.phase is Phase.CHECKPOINTING and (report.step or 0) >= 12)
    second.processes[0].send_signal(signal.SIGKILL)
    assert second.wait()[1] == ExitCode.PEER_LOST, second.output(1)
    saved = CheckpointReader(tmp_path).newest()
    assert saved is not None
    epochs = saved.cursor.epoch + 4
    newest = max(tmp_path.glob("checkpoint-*"))
    os.truncate(data_file(str(newest)), 100)

    third = launch(2, config=config | {"epochs": epochs}, job=job(tmp_path, attempt=1, everySteps=1000))
    assert third.wait() == [0, 0], third.output() + third.output(1)
    assert "checkpoint-damaged" in third.output()
    assert "restored step=" in third.output(1)
    final = FinalRecord.model_validate_json((tmp_path / "final.json").read_bytes())
    cursor = read_record(Path(final.path)).cursor
    assert (cursor.step, cursor.examples) == (epochs * 13, epochs * 203)


@pytest.mark.long
def test_a_frozen_worker_does_not_hold_the_others_for_ever(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    gang = launch(2, config=config | FOREVER, job=job(tmp_path, everySteps=1000))
    gang.progress_when(lambda report: (report.step or 0) > 0)
    gang.processes[1].send_signal(signal.SIGSTOP)
    assert gang.processes[0].wait(300) == ExitCode.PEER_LOST, gang.output()
    gang.processes[1].send_signal(signal.SIGCONT)
    assert gang.processes[1].wait(300) == ExitCode.PEER_LOST, gang.output(1)
