"""Directory of a local run: logs, volumes, termination messages and `status.json`, in the form of a job's `.status`.

| path | content |
|---|---|
| `status.json` | phase, progress, evaluation, failures; replaced atomically (rename) at every change |
| `logs/worker-0.log` | output of a replica; that of the previous run is `worker-0.previous.log` |
| `volumes/CLAIM` | content of a PersistentVolumeClaim; never emptied |
| `scratch/REPLICA`, `config/REPLICA`, `source` | emptyDirs, ConfigMaps, source from Git; emptied at the start |
| `termination/REPLICA` | termination message of a replica |
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from pydantic import ValidationError

from tfdist.contract_reports import TerminationMessage
from tfdist.local.volumes import Folder

_LONGEST: Final = 512


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
        self._lock = _locked(path / "lock")

    def prepare(self, folders: Iterable[Folder], replicas: Iterable[str]) -> None:
        """Create folders and files of the plan, and rename the logs of the previous run."""
        planned = list(folders)
        for folder in planned:
            if folder.empty and folder.path.is_relative_to(self.path):
                shutil.rmtree(folder.path, ignore_errors=True)
        for folder in planned:
            if folder.make:
                folder.path.mkdir(parents=True, exist_ok=True)
            for name, content in folder.files.items():
                file = folder.path / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        for name in replicas:
            if self.log(name).exists():
                self.log(name).replace(self.log(f"{name}.previous"))

    def log(self, name: str) -> Path:
        """Return the path of a replica's log."""
        return self.path / "logs" / f"{name}.log"

    def termination(self, name: str) -> Path:
        """Return the path of a replica's termination message."""
        return self.path / "termination" / name

    def termination_message(self, name: str) -> TerminationMessage | None:
        """Return the termination message of a replica, or None if it wrote none that follows the contract."""
        try:
            return TerminationMessage.model_validate_json(self.termination(name).read_bytes())
        except (OSError, ValidationError):
            return None

    def failure_message(self, name: str) -> str:
        """Return the reason for a replica's failure in one line: its termination message, else its last log line."""
        if (termination := self.termination_message(name)) is not None:
            return termination.message
        try:
            lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_LONGEST]

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace `status.json` atomically."""
        path = self.path / "status.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(status, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)

    def close(self) -> None:
        """Unlock the directory."""
        self._lock.close()


def _locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise RunDirectoryLocked(f"another run uses {path.parent}: wait for its end, or give --state FOLDER") from None
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
