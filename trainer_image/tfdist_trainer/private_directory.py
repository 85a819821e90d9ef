"""Directories of known names under the temporary directory, which all users of a machine share.

Whoever makes such a directory first could place files there that another user then reads as data or settings, or links
that let it overwrite its own files.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from tfdist_trainer.errors import ConfigurationError

_PRIVATE: Final = 0o700
_OTHERS: Final = 0o077


def private_directory(name: str, remedy: str = "set TMPDIR to a directory of your own") -> Path:
    """Return the directory `name` in the temporary directory, which is created if it is absent.

    Args:
        name: of the directory; with the user's number in it, users of a machine do not hinder each other.
        remedy: what to do if it cannot be used.

    Raises:
        ConfigurationError: it cannot be created, or it is a link or another user's.
    """
    path = Path(tempfile.gettempdir(), name)
    try:
        with suppress(FileExistsError):
            path.mkdir(mode=_PRIVATE)
        # Not `stat`: a link of another user would name a directory of this one.
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise ConfigurationError(f"{path}: is not a directory of user {os.geteuid()}, but another one's; {remedy}")
        if stat.S_IMODE(found.st_mode) & _OTHERS:
            path.chmod(_PRIVATE)  # such as by `fsGroup`, which Kubernetes lets write to all of a volume
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be made private: {error.strerror}; {remedy}") from None
    return path
