"""Fencing: an old attempt must not write checkpoints after a newer one has started.

A pod on a node that does not respond may continue to train while its successor trains. Each chief claims the directory
in `fence.json` before its first step, and checks the claim before every write; a chief that finds a later claim stops.
The window between check and rename is short; without locks a file system cannot close it: the successor has read
the directory before, and a checkpoint of the old attempt is still valid. An object store compares and writes the claim
at once: of two writers that claim at the same time, the second finds the claim of the first.

Each exported model has a claim of its own, in the folder of its replacement (`StorageFolder.replace_folder`).

Another job may claim the directory only after its writer has ended (`writer_heartbeat`). A job of the same name has
replaced the former: Kubernetes allows one job of a name at a time in a cluster. In another cluster it is another job.
"""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pydantic

from tfdist.contract import ReplicaJob, Role, replica_name
from tfdist.contract_model import ContractModel
from tfdist_trainer import log, writer_heartbeat
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError, StorageError
from tfdist_trainer.storage.locations import Location, open_folder

FILE: Final = "fence.json"


class Writer(ContractModel):
    """The writer of a checkpoint: the replica, its attempt, its job, and the host name of its pod."""

    job: str
    """The job's UID."""
    name: str
    """The job's name."""
    namespace: str
    cluster: str | None = None
    """Identifies the cluster of the job; None if it is unknown."""
    role: Role
    index: int
    attempt: int
    round: int = 0
    host: str

    def __str__(self) -> str:
        replica = replica_name(self.role, self.index)
        job = f"{self.namespace}/{self.name} (UID {self.job}, {replica} on {self.host})"
        return f"attempt {self.attempt} of job {job}"

    @property
    def tag(self) -> str:
        """Distinguishes the temporary names of two writers."""
        return f"{self.attempt}-{self.host}"

    def replaces(self, other: "Writer") -> bool:
        """Return whether this is the same job as `other`, or a new one of its name, for which it was deleted."""
        return self.job == other.job or (self.has_name_of(other) and other.cluster in {None, self.cluster})

    def has_name_of(self, other: "Writer") -> bool:
        """Return whether the two jobs have one namespace and name."""
        return (self.namespace, self.name) == (other.namespace, other.name)


def writer_of(job: ReplicaJob, round_number: int) -> Writer:
    """Return this replica of `job`, after `round_number` in-place restarts, as the writer of a checkpoint."""
    return Writer(
        job=job.uid,
        name=job.name,
        namespace=job.namespace,
        cluster=job.cluster,
        role=job.role,
        index=job.index,
        attempt=job.attempt,
        round=round_number,
        host=socket.gethostname(),
    )


class Fence:
    """The claim of one writer on a directory."""

    def __init__(self, directory: Location, writer: Writer, pause: Callable[[float], object] = time.sleep) -> None:
        self._folder = open_folder(directory, tag=writer.tag)
        self._writer = writer
        self._pause = pause
        self._heartbeat = writer_heartbeat.WriterHeartbeat(self._folder, writer.job)

    def claim(self) -> None:
        """Claim the directory for this writer, after the end of another job that writes there.

        Raises:
            CheckpointUnwritableError: a later attempt of the same job has claimed the directory.
            ConfigurationError: another job writes there.
        """
        text = self._folder.read_text(FILE)
        holder = self._holder(text)
        # Another job may still write there: its heartbeat decides (ADR 31).
        if holder is not None and not self._writer.replaces(holder):
            self._await_end(holder)
            text = self._folder.read_text(FILE)
            holder = self._holder(text)  # a third job may have claimed it meanwhile: the next check finds that
        # This process is the old one, on a node that did not answer.
        if holder is not None and holder.job == self._writer.job and _rank(holder) > _rank(self._writer):
            raise self._fenced_off(holder)
        # First the heartbeat: a claim without one counts as the claim of a job that has ended.
        writer_heartbeat.remove_others(self._folder, self._writer.job)
        self._heartbeat.start()
        # Another writer has claimed it in between: look again.
        if not self._folder.swap_text(FILE, self._writer.to_json(), expected=text):
            self._heartbeat.stop()
            self.claim()

    def check(self) -> None:
        """Raise `CheckpointUnwritableError` if another attempt, or another job, has claimed the directory since."""
        holder = self._holder(self._folder.read_text(FILE))
        # Any other claim is a later one: this writer had the directory.
        if holder is not None and (holder.job, *_rank(holder)) != (self._writer.job, *_rank(self._writer)):
            raise self._fenced_off(holder)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Raise the error of `check`, if there is one, in place of an error of the storage in the block.

        A successor removes partial files of this writer: that is not a failure of the storage.
        """
        try:
            yield
        except (CheckpointUnwritableError, StorageError):
            with suppress(StorageError):
                self.check()
            raise

    def release(self) -> None:
        """Let other jobs claim the directory at once; the record of the last writer stays."""
        self._heartbeat.stop()

    def _await_end(self, holder: Writer) -> None:
        where = f"{self._folder.field}: {self._folder}"
        log.event("checking-writer", message=f"{where} was last written by {holder}")
        if not writer_heartbeat.has_ended(self._folder, holder.job, self._pause):
            place = " in another cluster" if self._writer.has_name_of(holder) else ""
            raise ConfigurationError(
                f"{where} is written by {holder}, which is running{place}; wait for its end, delete it, or choose "
                "another directory"
            )

    def _holder(self, text: str | None) -> Writer | None:
        if text is None:
            return None
        try:
            return Writer.model_validate_json(text)
        except pydantic.ValidationError as error:
            where = self._folder.place(FILE)
            raise StorageError(f"{where}: not the record of a writer: {error.errors()[0]['msg']}") from None

    def _fenced_off(self, holder: Writer) -> CheckpointUnwritableError:
        return CheckpointUnwritableError(
            f"{self._folder.field}: {self._folder} belongs to {holder}; this is {self._writer}, "
            "which must not write there any more"
        )


def _rank(writer: Writer) -> tuple[int, int]:
    return writer.attempt, writer.round
