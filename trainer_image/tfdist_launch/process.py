"""One training process: its files, which the launcher and the process share, and its signals."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tfdist.contract import REPORT_PORT_ENV, STANDBY_PORT_OFFSET, TF_CONFIG_ENV
from tfdist_trainer import termination
from tfdist_trainer.environment import ROUND_ENV
from tfdist_trainer.heartbeat import HEARTBEAT_ENV, HeartbeatReader
from tfdist_trainer.standby import GO, START_BARRIER_ENV

_FLAGS: Final = 5
"""Index of the flags among the fields after the state in `/proc/PID/stat` (`proc_pid_stat(5)`)."""
_EXITING: Final = 0x4
"""`PF_EXITING` of `include/linux/sched.h`."""


class TrainingProcess:
    """The training process of one round."""

    def __init__(self, id_: int, number: int, folder: Path, *, other_port: bool = False, standby: bool = False) -> None:
        """Create its files.

        Args:
            id_: unique among the processes of this launcher.
            number: its round.
            folder: of its files.
            other_port: whether TensorFlow listens `STANDBY_PORT_OFFSET` beyond the port of `TF_CONFIG`.
            standby: whether it waits at a start barrier until `release`.
        """
        self.id = id_
        self.round = number
        self.other_port = other_port
        self.pid: int | None = None
        self.has_exited = False
        self.kill_when_started = False
        """Whether it is to be killed as soon as its PID is known."""
        # Files of its own for each process: a killed one may still write to its file for a moment.
        self.heartbeat = HeartbeatReader(folder / f"heartbeat-{id_}")
        self.message = folder / f"termination-{id_}"
        self.barrier = folder / f"barrier-{id_}" if standby else None
        self._barrier_fd: int | None = None
        if self.barrier is not None:
            os.mkfifo(self.barrier)
            # Both ends in one descriptor: so neither side blocks until the other opens the FIFO.
            self._barrier_fd = os.open(self.barrier, os.O_RDWR | os.O_NONBLOCK)

    @property
    def is_ready(self) -> bool:
        """Whether it waits at its start barrier, and is not exiting before its exit is reported."""
        return self.heartbeat.is_ready and self.pid is not None and not _is_exiting(self.pid)

    def release(self) -> bool:
        """Release the start barrier if the process waits there; return whether it does."""
        if self._barrier_fd is None or not self.is_ready:
            return False
        os.write(self._barrier_fd, GO)
        return True

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to the process group; return False if the process has not been started yet."""
        if self.pid is None:
            return self.has_exited
        try:
            os.killpg(self.pid, number)
            if number is signal.SIGTERM:
                os.killpg(self.pid, signal.SIGCONT)  # a stopped process would not handle SIGTERM
        except ProcessLookupError:
            pass
        return True

    def termination_message(self) -> str:
        """Return its termination message; "" if there is none."""
        try:
            return self.message.read_text(encoding="utf-8", errors="replace")[:4096]
        except OSError:
            return ""

    def close(self) -> None:
        """Remove its files, including the termination message."""
        self.heartbeat.close()
        self.message.unlink(missing_ok=True)
        if self._barrier_fd is not None and self.barrier is not None:
            os.close(self._barrier_fd)
            self.barrier.unlink(missing_ok=True)
            self._barrier_fd = None


def _is_exiting(pid: int) -> bool:
    """Return whether a process has exited or is exiting: what killed another process may have killed it too."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    # A zombie still has its entry, and a killed process exits only after it has released its memory.
    return state in "ZX" or bool(int(numbers[_FLAGS]) & _EXITING)


def process_variables(process: TrainingProcess, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of `process` that are not in `environ` or differ from it."""
    variables = {
        HEARTBEAT_ENV: str(process.heartbeat.path),
        # The launcher serves the report of the replica.
        REPORT_PORT_ENV: "0",
        ROUND_ENV: str(process.round),
        termination.PATH_ENV: str(process.message),
    }
    if process.barrier is not None:
        variables[START_BARRIER_ENV] = str(process.barrier)
    if process.other_port and environ.get(TF_CONFIG_ENV):
        variables[TF_CONFIG_ENV] = _with_other_ports(environ[TF_CONFIG_ENV])
    return variables


def _with_other_ports(text: str) -> str:
    """Return `TF_CONFIG` with the standby ports. An invalid one is returned as it is: the process reports the error."""
    try:
        config: dict[str, Any] = json.loads(text)
        cluster = {role: [_other_port(each) for each in addresses] for role, addresses in config["cluster"].items()}
    # Left as it is: the process reads it too, and reports the error with its place.
    except (ValueError, KeyError, TypeError, AttributeError):
        return text
    return json.dumps(config | {"cluster": cluster})


def _other_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + STANDBY_PORT_OFFSET}"
