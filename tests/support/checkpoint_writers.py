"""Writers of checkpoints without TensorFlow, in directories and object stores, and what they have left there."""

from pathlib import Path
from typing import Final

from tfdist.contract import Role
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointWriter, DataCursor
from tfdist_trainer.fence import Writer
from tfdist_trainer.storage.object_folder import ObjectFolder
from tfdist_trainer.storage.object_store import Bucket
from tfdist_trainer.storage.object_urls import split
from tfdist_trainer.writer_heartbeat import WriterHeartbeat

TIME: Final = "2026-01-02T03:04:05.678Z"
VALUES: Final = bytes(range(256)) * 4000
CLAIM: Final = ["fence.json", "writer-uid-of-first.heartbeat"]


class Alone:
    """A gang of one."""

    class member:  # noqa: N801  as the gang calls it
        is_chief = True

    @staticmethod
    def broadcast_from_chief(value: float) -> float:
        return value


class Running:
    """Job `first` runs: its counter changes between two polls, `beats` times."""

    def __init__(self, directory: str | Path, beats: int) -> None:
        self.heartbeat = WriterHeartbeat(directory, "uid-of-first")
        self.beats, self.polls = beats, 0

    def pause(self, _: float) -> None:
        self.polls += 1
        if self.polls <= self.beats:
            self.heartbeat.beat()


def by(
    attempt: int = 0, name: str = "first", host: str = "worker-0", uid: str = "", cluster: str | None = None
) -> Writer:
    place = {"name": name, "namespace": "ml", "cluster": cluster}
    return Writer(job=uid or f"uid-of-{name}", **place, role=Role.WORKER, index=0, attempt=attempt, host=host)


def save(prefix: str, values: bytes = VALUES) -> None:
    Path(f"{prefix}.index").write_bytes(b"index")
    Path(f"{prefix}.data-00000-of-00001").write_bytes(values)


def store(directory: str | ObjectFolder, *, keep: int = 3, writer: Writer | None = None) -> CheckpointWriter:
    checkpoints = CheckpointWriter(directory, keep=keep, writer=writer or by())
    checkpoints.claim()
    return checkpoints


def write(writer: CheckpointWriter, *steps: int) -> None:
    for step in steps:
        writer.write(DataCursor(step=step), TIME, save)


def ended(directory: str, name: str = "first") -> None:
    """The job has ended, as far as a reader can know."""
    WriterHeartbeat(directory, f"uid-of-{name}").stop()


def newest(directory: str | ObjectFolder) -> int | None:
    """Return the step of the newest checkpoint, whose files are whole."""
    reader = CheckpointReader(directory)
    record = reader.newest()
    if record is None:
        return None
    path = reader.path_of(record.cursor.step).path()
    assert (path / "variables.data-00000-of-00001").read_bytes() == VALUES
    return record.cursor.step


def objects(directory: str) -> list[str]:
    """Return the keys of all objects below the checkpoint directory, with `V` for the name of a version."""
    bucket, key = split(directory)
    keys = [each.key.removeprefix(f"{key}/").split("/") for each in Bucket(bucket).tree(f"{key}/")]
    return sorted("/".join("V" if part.startswith("0-worker-0-") else part for part in parts) for parts in keys)


def files_of(step: int) -> list[str]:
    names = ["V/variables.data-00000-of-00001", "V/variables.index", "checkpoint.json"]
    return [f"checkpoint-{step:09d}/{name}" for name in names]
