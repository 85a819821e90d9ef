"""One program of a launcher, as the files that both have and the process that the nursery has forked."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tfdist.contract import REPORT_PORT_ENV, STANDBY_PORT_OFFSET, TF_CONFIG_ENV
from tfdist_trainer import termination
from tfdist_trainer.environment import ROUND_ENV
from tfdist_trainer.heartbeat import HEARTBEAT_ENV, Pulse
from tfdist_trainer.standby import GATE_ENV, GO

_FLAGS: Final = 5
"""Among the numbers behind the state in `/proc/PID/stat` (`proc_pid_stat(5)`)."""
_EXITING: Final = 0x4
"""`PF_EXITING` of `include/linux/sched.h`."""


class Program:
    """The program of round `round`."""

    def __init__(self, id_: int, number: int, folder: Path, *, other_port: bool = False, gated: bool = False) -> None:
        """Make its files.

        Args:
            id_: tells it from all others of this launcher.
            number: its round.
            folder: where its files are.
            other_port: whether TensorFlow listens `STANDBY_PORT_OFFSET` beyond the port of `TF_CONFIG`.
            gated: whether it is one in reserve, which waits at a gate until it may `go`.
        """
        self.id = id_
        self.round = number
        self.other_port = other_port
        self.pid: int | None = None
        self.has_ended = False
        self.is_killed = False
        """Whether it is to be killed as soon as its process is known."""
        self.pulse = Pulse(folder / f"heart-{id_}")
        self.message = folder / f"termination-{id_}"
        self.gate = folder / f"gate-{id_}" if gated else None
        self._opened: int | None = None
        if self.gate is not None:
            os.mkfifo(self.gate)
            # Both ends at once: so neither side waits for the other to open it.
            self._opened = os.open(self.gate, os.O_RDWR | os.O_NONBLOCK)

    @property
    def is_ready(self) -> bool:
        """Whether it waits at its gate, and is not dying without its end having been told."""
        return self.pulse.is_ready and self.pid is not None and not _is_dying(self.pid)

    def go(self) -> bool:
        """Open the gate, if it waits there; return whether it does."""
        if self._opened is None or not self.is_ready:
            return False
        os.write(self._opened, GO)
        return True

    def signal(self, number: signal.Signals) -> bool:
        """Signal the program and all that it has started; False while it has not been started."""
        if self.pid is None:
            return self.has_ended
        try:
            os.killpg(self.pid, number)
            if number is signal.SIGTERM:
                os.killpg(self.pid, signal.SIGCONT)  # one that was stopped would not hear it
        except ProcessLookupError:
            pass
        return True

    def last_words(self) -> str:
        """Return the termination message that it has left; "" where there is none."""
        try:
            return self.message.read_text(encoding="utf-8", errors="replace")[:4096]
        except OSError:
            return ""

    def close(self) -> None:
        """Remove its files, its last words among them."""
        self.pulse.close()
        self.message.unlink(missing_ok=True)
        if self._opened is not None and self.gate is not None:
            os.close(self._opened)
            self.gate.unlink(missing_ok=True)
            self._opened = None


def _is_dying(pid: int) -> bool:
    """Return whether a process is gone or on its way: what killed its sibling may have killed it too."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return state in "ZX" or bool(int(numbers[_FLAGS]) & _EXITING)


def environ_of(program: Program, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what `program` is told beyond `environ`."""
    told = {
        HEARTBEAT_ENV: str(program.pulse.path),
        REPORT_PORT_ENV: "0",
        ROUND_ENV: str(program.round),
        termination.PATH_ENV: str(program.message),
    }
    if program.gate is not None:
        told[GATE_ENV] = str(program.gate)
    if program.other_port and environ.get(TF_CONFIG_ENV):
        told[TF_CONFIG_ENV] = _moved(environ[TF_CONFIG_ENV])
    return told


def _moved(text: str) -> str:
    """Return a `TF_CONFIG` whose addresses have the other port; as it is where it is none, which the program says."""
    try:
        config: dict[str, Any] = json.loads(text)
        cluster = {role: [_beyond(place) for place in places] for role, places in config["cluster"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return text
    return json.dumps(config | {"cluster": cluster})


def _beyond(address: str) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + STANDBY_PORT_OFFSET}"
