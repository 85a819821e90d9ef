"""One run of a job on this machine, as its client sees it: files of its run directory, and a process."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tfdist.api.status import JobPhase
from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.errors import NotPossible
from tfdist.local import background
from tfdist.local.logs import Tail

Json = dict[str, Any]

_FINAL: Final = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.INVALID, JobPhase.SUSPENDED})
_STATUS: Final = "status.json"
_LOCK: Final = "lock"
_processes: dict[Path, subprocess.Popen[bytes]] = {}
"""The runs that this process has started, so that it reaps them."""


class LocalRun:
    """A run directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    @property
    def log_path(self) -> Path:
        """The file with the messages of the run."""
        return self.path / background.LOG

    def start(self, job: Json, config_maps: Sequence[Mapping[str, Any]]) -> None:
        """Write the job and start its process."""
        self.path.mkdir(parents=True, exist_ok=True)
        draft = self.path / f"{background.JOB}.tmp"
        draft.write_text(json.dumps({"job": job, "configMaps": config_maps}), encoding="utf-8")
        draft.replace(self.path / background.JOB)
        self.start_again()

    def start_again(self) -> None:
        """Start the process for the job that is stored."""
        for name in (_STATUS, _LOCK):
            (self.path / name).unlink(missing_ok=True)
        with self.log_path.open("wb") as log:
            _processes[self.path] = subprocess.Popen(
                [sys.executable, "-m", background.__name__, str(self.path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in a notebook interrupts a cell, not the jobs
            )

    def manifest(self) -> Json | None:
        """Return the job with its status; None if the directory has no job."""
        is_running = self.is_alive()  # before the status is read, which is written before the process ends
        stored = _read(self.path / background.JOB)
        if stored is None:
            return None
        status = _read(self.path / _STATUS) or {}
        if not is_running and status.get("phase") not in _FINAL and self._has_run():
            status |= {"phase": JobPhase.FAILED, "observedGeneration": 1, "summary": {"message": self._end()}}
        job: Json = stored["job"]
        # A run that is suspended counts as a change of the specification.
        metadata = job["metadata"] | {"generation": status.get("observedGeneration", 1)}
        return job | {"metadata": metadata, "status": status}

    def is_alive(self) -> bool:
        """Return whether the run has a process, of this client or another one."""
        process = _processes.get(self.path)
        if process is not None:
            if process.poll() is None:
                return True
            del _processes[self.path]
        return self._locked()

    def stop(self) -> None:
        """Have the processes save a checkpoint and stop, within their grace periods."""
        process = _processes.get(self.path)
        if process is not None:
            process.terminate()
        elif self._locked():
            with contextlib.suppress(ProcessLookupError, ValueError, OSError):
                os.kill(int((self.path / _LOCK).read_text(encoding="utf-8")), signal.SIGTERM)

    def remove(self) -> None:
        """Stop the processes, and remove the job and its status."""
        self.stop()
        for name in (background.JOB, _STATUS):
            (self.path / name).unlink(missing_ok=True)

    def _has_run(self) -> bool:
        """Return whether the process has locked its directory, or has written why it cannot."""
        return (self.path / _LOCK).exists() or (self.log_path.exists() and self.log_path.stat().st_size > 0)

    def _locked(self) -> bool:
        try:
            with (self.path / _LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _end(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line.strip()), "")
            return f"the run ended without a result{f': {last}' if last else ''}; see {self.log_path}"
        return "the run ended without a result"


def _read(path: Path) -> Json | None:
    try:
        content: Json = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content


_PREVIOUS: Final = ".previous"


class LocalLogs:
    """Reads the logs of a run, each line once."""

    def __init__(self, run: LocalRun, options: LogOptions) -> None:
        """Read the lines of a run that the options select.

        Raises:
            NotPossible: the options select an attempt or a time, which the files do not have.
        """
        if options.attempt is not None or options.since is not None:
            raise NotPossible(f"logs of this machine have neither attempts nor times: read {run.path / 'logs'}")
        self._run, self._options = run, options
        self._tails: dict[str, Tail] = {}

    def lines(self, *, last: bool) -> list[LogLine]:
        """Return the lines since the last call; with `last` also those without a line feed."""
        result: list[LogLine] = []
        for path in sorted((self._run.path / "logs").glob("*.log")):
            if path.stem.endswith(_PREVIOUS) or not self._options.selects(path.stem):
                continue
            is_new = path.stem not in self._tails
            texts = list(self._tails.setdefault(path.stem, Tail(path)).lines(last=last))
            if is_new and self._options.tail is not None:
                texts = texts[-self._options.tail :]
            result += [LogLine(path.stem, 0, f"{self._run.name}-{path.stem}", "", text) for text in texts]
        return result
