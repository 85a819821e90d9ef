"""Paths and URLs of folders: opens the folder that one names."""

from pathlib import Path
from typing import TypeAlias

from tfdist_trainer.storage.file_folder import FileFolder
from tfdist_trainer.storage.folder import Folder

Location: TypeAlias = str | Path | Folder
"""A path, a URL, or the opened folder."""


def open_folder(where: Location, *, tag: str = "", field: str = "checkpoint.directory") -> Folder:
    """Return the folder at a path or URL; one that is open already as it is.

    Args:
        where: its path or URL.
        tag: distinguishes the temporary names of two writers.
        field: the field of the job that names it, for messages.
    """
    if not isinstance(where, str | Path):
        return where
    return FileFolder(Path(where), tag, field)


def joined(directory: str, name: str) -> str:
    """Return the path or URL `name`; a relative path is relative to `directory`, a path or URL."""
    return str(Path(directory, name))


def parent(where: str) -> str:
    """Return the path or URL of the folder above."""
    return str(Path(where).parent)
