"""Fencing: an old attempt must not write checkpoints after a newer one has started.

A pod on a node that does not respond may continue to train while its successor trains. Each chief claims the directory
in `fence.json` before its first step, and checks the claim before every write; a chief that finds a later claim stops.
The window between check and rename is short, and a file system without locks allows no better: the successor has read
the directory before, and a checkpoint of the old attempt is still valid.
"""

from pathlib import Path
from typing import Final

import pydantic

from tfdist.contract import Role, replica_name
from tfdist.contract_model import ContractModel
from tfdist_trainer import atomic
from tfdist_trainer.errors import CheckpointUnwritableError, StorageError

FILE: Final = "fence.json"


class Writer(ContractModel):
    """The writer of a checkpoint: the replica, its attempt, its job, and the host name of its pod."""

    job: str
    """The job's UID."""
    role: Role
    index: int
    attempt: int
    round: int = 0
    host: str

    def __str__(self) -> str:
        return f"attempt {self.attempt} of job {self.job} ({replica_name(self.role, self.index)} on {self.host})"


class Fence:
    """The claim of one writer on a directory."""

    def __init__(self, directory: Path, writer: Writer) -> None:
        self._path = directory / FILE
        self._writer = writer

    def claim(self) -> None:
        """Claim the directory for this writer.

        Raises:
            CheckpointUnwritableError: a later attempt of the same job has claimed the directory.
        """
        holder = self._holder()
        if holder is not None and holder.job == self._writer.job and _rank(holder) > _rank(self._writer):
            raise self._fenced_off(holder)
        tag = f"{self._writer.attempt}-{self._writer.host}"
        atomic.write_text(self._path, self._writer.to_json(), tag=tag)

    def check(self) -> None:
        """Raise `CheckpointUnwritableError` if another attempt, or another job, has claimed the directory since."""
        holder = self._holder()
        if holder is not None and (holder.job, *_rank(holder)) != (self._writer.job, *_rank(self._writer)):
            raise self._fenced_off(holder)

    def _holder(self) -> Writer | None:
        try:
            return Writer.model_validate_json(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except pydantic.ValidationError as error:
            raise StorageError(f"{self._path}: not the record of a writer: {error.errors()[0]['msg']}") from None

    def _fenced_off(self, holder: Writer) -> CheckpointUnwritableError:
        return CheckpointUnwritableError(
            f"checkpoint.directory: {self._path.parent} belongs to {holder}; this is {self._writer}, "
            "which must not write there any more"
        )


def _rank(writer: Writer) -> tuple[int, int]:
    return writer.attempt, writer.round
