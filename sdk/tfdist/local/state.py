"""The folder of a local run: logs, volumes, last words and `status.json`, which has the form of a job's `.status`.

| path | content |
|---|---|
| `status.json` | phase, progress, evaluation, failures: written anew at every change, by renaming |
| `logs/worker-0.log` | all that a replica wrote; that of the run before is `worker-0.previous.log` |
| `volumes/CLAIM` | what a PersistentVolumeClaim holds; never emptied |
| `scratch/REPLICA`, `config/REPLICA`, `source` | emptyDirs, ConfigMaps, code from Git; emptied at a start |
| `termination/REPLICA` | the last words of a replica |
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


class Occupied(Exception):  # noqa: N818  the name says what the folder is
    """Another run uses the folder."""


class State:
    """One run's folder, which no other run uses while this object holds it."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, if need be, and take it.

        Raises:
            Occupied: another run has it.
            OSError: it cannot be made.
        """
        self.folder = folder
        for part in ("logs", "termination"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self._lock = _locked(folder / "lock")

    def prepare(self, folders: Iterable[Folder], replicas: Iterable[str]) -> None:
        """Make folders and files as the plan wants them, and put the logs of the run before aside."""
        wanted = list(folders)
        for folder in wanted:
            if folder.empty and folder.path.is_relative_to(self.folder):
                shutil.rmtree(folder.path, ignore_errors=True)
        for folder in wanted:
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
        """Return the log of a replica."""
        return self.folder / "logs" / f"{name}.log"

    def termination(self, name: str) -> Path:
        """Return where a replica leaves its last words."""
        return self.folder / "termination" / name

    def last_words(self, name: str) -> TerminationMessage | None:
        """Return the termination message of a replica, if it wrote one of ours."""
        try:
            return TerminationMessage.model_validate_json(self.termination(name).read_bytes())
        except (OSError, ValidationError):
            return None

    def said(self, name: str) -> str:
        """Return in one line what a replica said at its end: its last words, else the last line of its log."""
        if (words := self.last_words(name)) is not None:
            return words.message
        try:
            lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")[:_LONGEST]

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Replace `status.json` as a whole."""
        path = self.folder / "status.json"
        draft = path.with_suffix(".tmp")
        draft.write_text(json.dumps(status, indent=2) + "\n", encoding="utf-8")
        draft.replace(path)

    def close(self) -> None:
        """Let other runs have the folder."""
        self._lock.close()


def _locked(path: Path) -> IO[str]:
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise Occupied(f"another run uses {path.parent}: wait for its end, or give --state FOLDER") from None
    file.write(f"{os.getpid()}\n")
    file.flush()
    return file
