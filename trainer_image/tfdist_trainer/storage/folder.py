"""The folder of a checkpoint store, wherever it is: small texts, and subfolders that appear as a whole.

A subfolder that is written as a whole has a marker, a file that names all others: without it the subfolder does not
exist for readers.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tfdist_trainer.errors import StorageError


def work_folder(name: str) -> str:
    """Return the name of the folder with what a replacement of the subfolder `name` needs, and its writer's claim."""
    return f".{name}"


class DamagedError(StorageError):
    """A file is absent, or its content is not what was written. An error of the storage is none."""


class Staged(Protocol):
    """The content of a subfolder before it is visible."""

    @property
    def path(self) -> Path:
        """StorageFolder of this machine to which its files are written, without the marker."""

    @property
    def version(self) -> str | None:
        """Name that the storage assigns to the files of this write, which the marker must have; None without any."""

    def complete(self, marker: str, text: str) -> None:
        """Write all files, and the `text` of the marker, to the storage, if they are not visible yet."""

    def publish(self) -> None:
        """Make the subfolder visible, in place of a former one of its name."""


class StorageFolder(Protocol):
    """A folder; `str` of it is its path or URL.

    Raises (every method):
        CheckpointUnwritableError: the file system cannot be written, for a lasting reason such as permissions.
        ConfigurationError: a setting of an object store is wrong, or its credentials.
        StorageError: the storage failed, or a file or the list of files cannot be read.
    """

    @property
    def field(self) -> str:
        """The field of the job that names it or a folder above it, for messages."""

    @property
    def poll_seconds(self) -> float:
        """The shortest reasonable interval between two reads of the same file in a loop."""

    @property
    def local_path(self) -> Path | None:
        """Its path, if it is a folder of a file system."""

    def place(self, name: str) -> str:
        """Return path or URL of `name` in this folder."""

    def folder(self, name: str) -> "StorageFolder":
        """Return the subfolder `name`, which need not exist."""

    def create(self) -> None:
        """Create the folder if it does not exist."""

    def names(self) -> list[str]:
        """Return the names of the files and folders in it, sorted; none if it does not exist."""

    def read_text(self, name: str) -> str | None:
        """Return the content of a file; None if it does not exist."""

    def write_text(self, name: str, text: str) -> None:
        """Create or replace a file atomically."""

    def swap_text(self, name: str, text: str, expected: str | None) -> bool:
        """Replace a file whose content is `expected`, None for a file that does not exist; return whether it was.

        Atomic if the storage can compare and write at once.
        """

    def overwrite_text(self, name: str, text: str) -> bool:
        """Overwrite a file that exists with a text that is not shorter; return whether it exists."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def stage(self, name: str) -> AbstractContextManager[Staged]:
        """Return what a subfolder `name` is written to, to be published in the block."""

    def replace_folder(self, name: str, marker: str, check: Callable[[], object]) -> AbstractContextManager[Path]:
        """Return a new folder of this machine, whose content replaces the subfolder `name` at the end of the block.

        Until then it is in the subfolder `.<name>` (`work_folder`), as is the former content while it is replaced. What
        an interrupted replacement has left there is removed at the beginning; a former content without a successor is
        restored, as it is after an error. One writer at a time may replace a subfolder.

        Args:
            name: of the subfolder.
            marker: path in it of a file without which its other files are no model. An object store replaces object by
                object: it removes the former marker first, and writes the new one last.
            check: raises if this writer may not replace it any more; called before anything is replaced.
        """

    def move_folder(self, name: str, target: "StorageFolder", marker: str) -> None:
        """Move the subfolder `name` into another folder of the same storage, in place of one of its name there."""

    def remove_folder(self, name: str, marker: str) -> None:
        """Remove a subfolder, so that a reader finds all of it or nothing."""

    def remove_unfinished(self, prefix: str, marker: str, version_of: Callable[[str], str | None]) -> None:
        """Remove what interrupted writes of subfolders with this `prefix` have left.

        Args:
            prefix: beginning of their names.
            marker: name of their marker.
            version_of: returns the version in the text of a marker.
        """

    def fetch(self, version: str | None, sizes: Mapping[str, int]) -> "Fetched":
        """Return files of this folder, by name with their `sizes` in bytes, as files of this machine.

        Raises:
            FileNotFoundError: one does not exist.
        """


class Fetched(Protocol):
    """Files of this machine; those that were copied exist as long as this does."""

    @property
    def path(self) -> Path:
        """Their folder."""
