"""Where everything that is built lies, and the two ways to write there without leaving halves behind.

All of it is under one ignored folder, `.state` of the repository, or what `TFDIST_STATE` names. It may be deleted
at any time when no build runs.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The repository's root."""


def state_folder(*parts: str) -> Path:
    """Return a folder inside the state folder, made if it is not there."""
    state = Path(os.environ.get("TFDIST_STATE") or ROOT / ".state").resolve()
    folder = state.joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def complete_or_absent(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which becomes `path` when the body ends without an error.

    A file or folder under the final name is therefore always complete. What an earlier, killed run left under
    the temporary name is removed first; callers hold the lock.
    """
    partial = path.with_name(f".partial-{path.name}")
    remove(partial)
    try:
        yield partial
        partial.replace(path)
    finally:
        remove(partial)


def remove(path: Path) -> None:
    """Remove a file or a folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock `name`; the kernel releases it when this process ends, however it ends."""
    with (state_folder("locks") / name).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another process that holds {file.name}", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
