"""Directory of a local run: logs, volumes, termination messages and `status.json`, in the form of a job's `.status`.

| path | content |
|---|---|
| `status.json` | the job's status; replaced atomically (rename) at every change |
| `logs/worker-0.log` | output of a replica in all attempts; the previous run's is in `worker-0.previous.log` |
| `volumes/CLAIM` | content of a PersistentVolumeClaim; never emptied |
| `scratch/REPLICA`, `config/REPLICA`, `source` | emptyDirs, ConfigMaps, source from Git; emptied at the start |
| `termination/REPLICA` | termination message of a replica |
| `stacks.txt` | stacks of the replicas when they neither printed nor made progress; of the last such time |
"""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from tfdist.local.volumes import VolumeFolder

_LONGEST_MESSAGE: Final = 4096
_LOG_BYTES: Final = 2048
"""Limits of the kubelet for a termination message, and for the end of a log in place of one."""


class RunDirectoryLocked(Exception):  # noqa: N818  a state of the directory, not an error of the program
    """Another run uses the directory."""


class RunDirectory:
    """Directory of one run, locked against other runs until `close`."""

    def __init__(self, path: Path) -> None:
        """Create the directory if it does not exist, and lock it.

        Raises:
            RunDirectoryLocked: another run uses it.
            OSError: it cannot be created.
        """
        self.path = path
        for part in ("logs", "termination"):
            (path / part).mkdir(parents=True, exist_ok=True)
        self._lock = _open_locked(path / "lock")
        self._log_begins: dict[str, int] = {}

    def prepare(self, folders: Iterable[VolumeFolder], replicas: Iterable[str]) -> None:
        """Create folders and files of the job, and rename the logs of the previous run."""
        self._create(list(folders))
        for name in replicas:
            if self.log(name).exists():
                self.log(name).replace(self.log(f"{name}.previous"))

    def begin(self, name: str, folders: Sequence[VolumeFolder]) -> None:
        """Create the folders of a replica, which is about to start, and remove its earlier termination message."""
        self._create(folders)
        self.termination(name).unlink(missing_ok=True)
        self._log_begins[name] = self.log(name).stat().st_size if self.log(name).exists() else 0

    def _create(self, folders: Sequence[VolumeFolder]) -> None:
        for folder in folders:
            if folder.empty and folder.path.is_relative_to(self.path):
                shutil.rmtree(folder.path, ignore_errors=True)
        for folder in folders:
            if folder.make:
                folder.path.mkdir(parents=True, exist_ok=True)
            for name, content in folder.files.items():
                file = folder.path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)

    def log(self, name: str) -> Path:
        """Return the path of a replica's log."""
        return self.path / "logs" / f"{name}.log"

    def termination(self, name: str) -> Path:
        """Return the path of a replica's termination message."""
        return self.path / "termination" / name

    def write_stacks(self, text: str) -> Path:
        """Replace the stacks of all replicas, and return the path of the file."""
        path = self.path / "stacks.txt"
        path.write_text(text, encoding="utf-8", errors="replace")
        return path

    def message(self, name: str, *, failed: bool) -> str:
        """Return the termination message of a replica that has ended; after a failure without one the end of its log.

        As with `terminationMessagePolicy: FallbackToLogsOnError`, which all rendered pods have.
        """
        with contextlib.suppress(OSError):
            if text := self.termination(name).read_text(encoding="utf-8", errors="replace")[:_LONGEST_MESSAGE]:
                return text
        if not failed:
            return ""
        with self.log(name).open("rb") as log:
            log.seek(max(self._log_begins[name], log.seek(0, os.SEEK_END) - _LOG_BYTES))
            return log.read().decode(errors="replace")

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace `status.json` atomically."""
        path = self.path / "status.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(status, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)

    def close(self) -> None:
        """Unlock the directory."""
        self._lock.close()


def short(path: Path) -> str:
    """Return a path relative to the current folder, if it is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _open_locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunDirectoryLocked(f"another run uses {path.parent}: wait for its end, or give --state FOLDER") from None
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
