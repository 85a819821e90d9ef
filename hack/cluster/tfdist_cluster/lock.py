"""An exclusive file lock, which the kernel releases when its holder exits for any reason."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tfdist_cluster import console


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock of a file; if another process holds it, print a message and wait.

    The file stays: removing it would let two processes lock two files of the same name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not inherited by children, or a server started under the lock would hold it for ever.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            console.info(f"... another invocation (process {holder}) holds {path}; waiting for it")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
