"""A folder of a file system. A file or subfolder is written under a temporary name, flushed, and renamed."""

import contextlib
import errno
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfdist_trainer import atomic
from tfdist_trainer.storage.folder import StorageFolder, work_folder

_FORMER = "-former"
"""Ends the name of a folder while another one takes its place."""


@dataclass(frozen=True, slots=True)
class FileFolder:
    """See `StorageFolder`."""

    path: Path
    tag: str = ""
    """Distinguishes the temporary names of two writers."""
    field: str = "checkpoint.directory"
    """The field of the job that names it or a folder above it, for messages."""

    def __str__(self) -> str:
        return str(self.path)

    @property
    def poll_seconds(self) -> float:
        """See `StorageFolder`."""
        return 0.0

    @property
    def local_path(self) -> Path:
        """See `StorageFolder`."""
        return self.path

    def place(self, name: str) -> str:
        """See `StorageFolder`."""
        return str(self.path / name)

    def folder(self, name: str) -> "FileFolder":
        """See `StorageFolder`."""
        return FileFolder(self.path / name, self.tag, self.field)

    def create(self) -> None:
        """See `StorageFolder`."""
        with self._typed_errors():
            self.path.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """See `StorageFolder`."""
        try:
            return sorted(path.name for path in self.path.iterdir())
        except atomic.ABSENT:
            return []
        except OSError as error:
            raise atomic.read_failure(error, self.path) from error

    def read_text(self, name: str) -> str | None:
        """See `StorageFolder`."""
        path = self.path / name
        try:
            try:
                return _content(path)
            except OSError as error:
                if error.errno != errno.ESTALE:  # of NFS, for a file that was replaced while it was read
                    raise
                return _content(path)
        except atomic.ABSENT:
            return None
        except OSError as error:
            raise atomic.read_failure(error, path) from error

    def write_text(self, name: str, text: str) -> None:
        """See `StorageFolder`."""
        with self._typed_errors():
            atomic.write_text(self.path / name, text, tag=self.tag)

    def swap_text(self, name: str, text: str, expected: str | None) -> bool:
        """See `StorageFolder`: not atomic, because file systems cannot."""
        if self.read_text(name) != expected:
            return False
        self.write_text(name, text)
        return True

    def overwrite_text(self, name: str, text: str) -> bool:
        """See `StorageFolder`: in place, because a rename would restore a file that another writer has removed."""
        with self._typed_errors():
            try:
                with (self.path / name).open("r+", encoding="utf-8") as file:
                    file.write(text)
            except FileNotFoundError:
                return False
        return True

    def remove(self, name: str) -> None:
        """See `StorageFolder`."""
        with self._typed_errors():
            (self.path / name).unlink(missing_ok=True)

    @contextmanager
    def stage(self, name: str) -> "Iterator[_StagedFiles]":
        """See `StorageFolder`."""
        with self._typed_errors():
            temporary = self.path / f"{atomic.TEMPORARY_PREFIX}{name}-{self.tag}"
            # What an interrupted write of this writer has left.
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield _StagedFiles(temporary, self.path / name, self.tag)

    @contextmanager
    def replace_folder(
        self,
        name: str,
        marker: str,  # noqa: ARG002  a directory is renamed as a whole
        check: Callable[[], object],
    ) -> Iterator[Path]:
        """See `StorageFolder`."""
        target, work = self.path / name, self.path / work_folder(name)
        new, former = work / f"{atomic.TEMPORARY_PREFIX}{self.tag}", work / f"{atomic.TEMPORARY_PREFIX}{_FORMER}"
        with self._typed_errors():
            # A writer was killed between the two renames: the former content is restored.
            if former.exists() and not target.exists():
                former.rename(target)
            for leftover in work.glob(f"{atomic.TEMPORARY_PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            new.mkdir(parents=True)
            yield new
            for path in [*new.rglob("*"), new]:
                atomic.sync(path)
            # Right before anything is replaced: a successor may have claimed the folder while the model was written.
            check()
            if target.exists():
                # A directory cannot replace another one in one call.
                target.rename(former)
            try:
                new.rename(target)
            except OSError:
                with contextlib.suppress(OSError):
                    former.rename(target)
                raise
            atomic.sync(self.path)
            shutil.rmtree(former, ignore_errors=True)

    def move_folder(self, name: str, target: StorageFolder, marker: str) -> None:  # noqa: ARG002  a directory moves as a whole
        """See `StorageFolder`."""
        with self._typed_errors():
            folder = Path(str(target))
            folder.mkdir(exist_ok=True)
            shutil.rmtree(folder / name, ignore_errors=True)
            (self.path / name).rename(folder / name)

    def remove_folder(self, name: str, marker: str) -> None:  # noqa: ARG002  as `move_folder`
        """See `StorageFolder`."""
        removed = self.path / f"{atomic.TEMPORARY_PREFIX}{name}-gone"
        shutil.rmtree(removed, ignore_errors=True)
        with self._typed_errors():
            # Renamed first, so that a reader finds all of it or nothing (ADR 12).
            (self.path / name).rename(removed)
        shutil.rmtree(removed, ignore_errors=True)

    def remove_unfinished(
        self,
        prefix: str,
        marker: str,  # noqa: ARG002  they have temporary names
        version_of: Callable[[str], str | None],  # noqa: ARG002
    ) -> None:
        """See `StorageFolder`."""
        for name in self.names():
            if not name.startswith(f"{atomic.TEMPORARY_PREFIX}{prefix}"):
                continue
            target = self.path / name.removeprefix(atomic.TEMPORARY_PREFIX).removesuffix(_FORMER)
            with self._typed_errors():
                if name.endswith(_FORMER) and not target.exists():
                    (self.path / name).rename(target)
                else:
                    shutil.rmtree(self.path / name, ignore_errors=True)

    def fetch(self, version: str | None, sizes: Mapping[str, int]) -> "FileFolder":  # noqa: ARG002  they are local
        """See `StorageFolder`."""
        return self

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise atomic.storage_failure(error, self.path, self.field) from error


def _content(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


@dataclass(frozen=True, slots=True)
class _StagedFiles:
    path: Path
    target: Path
    tag: str
    version: None = None

    def complete(self, marker: str, text: str) -> None:
        """See `Staged`."""
        atomic.write_text(self.path / marker, text, tag=self.tag)

    def publish(self) -> None:
        """See `Staged`."""
        # A checkpoint of the same step may exist: if this process is killed here, `remove_unfinished` restores it.
        former = self.target.with_name(f"{atomic.TEMPORARY_PREFIX}{self.target.name}{_FORMER}")
        if self.target.exists():  # otherwise the former one may be all that there is
            shutil.rmtree(former, ignore_errors=True)
            self.target.rename(former)
        self.path.rename(self.target)
        atomic.sync(self.target.parent)
        shutil.rmtree(former, ignore_errors=True)
