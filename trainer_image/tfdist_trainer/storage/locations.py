"""Paths and URLs of folders: opens the folder that one names."""

from pathlib import Path
from typing import TypeAlias

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.storage import object_urls
from tfdist_trainer.storage.file_folder import FileFolder
from tfdist_trainer.storage.folder import StorageFolder
from tfdist_trainer.storage.object_folder import open_object_folder

Location: TypeAlias = str | Path | StorageFolder
"""A path, a URL, or the opened folder."""


def open_folder(where: Location, *, tag: str = "", field: str = "checkpoint.directory") -> StorageFolder:
    """Return the folder at a path or URL; one that is open already as it is.

    Args:
        where: its path or URL.
        tag: distinguishes the temporary names of two writers.
        field: the field of the job that names it, for messages.

    Raises:
        ConfigurationError: `where` is a `Path` of a URL, which has one slash less, or obstore is not installed.
    """
    if not isinstance(where, str | Path):
        return where
    if isinstance(where, str) and object_urls.is_url(where):
        return open_object_folder(where, tag, field)
    # It would become a relative path, and the checkpoints be written into the container.
    if object_urls.is_url(str(where).replace(":/", "://", 1)):
        raise ConfigurationError(
            f"{field}: {where} is a Path, which has lost a slash of its URL; give the URL as a string"
        )
    return FileFolder(Path(where), tag, field)


def join_location(directory: str, name: str) -> str:
    """Return the path or URL `name`; a relative path is relative to `directory`, a path or URL."""
    if object_urls.is_url(name) or not object_urls.is_url(directory):
        return name if object_urls.is_url(name) else str(Path(directory, name))
    return object_urls.join_url(directory, name)


def parent(where: str) -> str:
    """Return the path or URL of the folder above."""
    return where.rpartition("/")[0] if object_urls.is_url(where) else str(Path(where).parent)
