"""A program in reserve: everything that a round needs is made ready, and waits until the launcher lets it go on.

While a round trains, the warm process forks the program of the next one. It meets those of the other members, starts
TensorFlow's server on the other of two ports, builds the model, traces and takes one step, all of which a restart
would wait for; what it has computed is thrown away, for a checkpoint follows. Then it waits at a gate: a FIFO, in which
a blocked read costs nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tfdist_trainer import heartbeat, log
from tfdist_trainer.errors import PeerLostError

GATE_ENV: Final = "TFDIST_GATE"
"""Environment variable with the path of the FIFO; set by the launcher for a program in reserve alone."""

GO: Final = b"g"


class Gate:
    """What a program in reserve waits at."""

    def __init__(self, path: Path, heart: heartbeat.Heart) -> None:
        """`path` is the FIFO, to which the launcher writes `GO`."""
        self._path = path
        self._heart = heart

    def wait(self) -> None:
        """Say that all is ready, and return when the round begins.

        Raises:
            PeerLostError: the launcher is gone.
        """
        log.event("ready")
        self._heart.be_ready()
        with self._path.open("rb", buffering=0) as gate:
            if gate.read(1) != GO:
                raise PeerLostError("the launcher of this program in reserve is gone")
        log.also()


def gate_from(environ: Mapping[str, str], number: int) -> Gate | None:
    """Return the gate of this process, and have its log say that it is in reserve for round `number`; or None."""
    heart = heartbeat.attach(environ)
    if not environ.get(GATE_ENV) or heart is None:
        return None
    log.also(standby=number)
    return Gate(Path(environ[GATE_ENV]), heart)
