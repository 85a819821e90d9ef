"""The standby process: prepares the next round while the current one trains, and starts on a signal of the launcher.

The fork server forks the training process of the next round in advance. It finds the standby processes of the other
members, starts TensorFlow's server on the other of two ports, builds the model, and traces and runs one step: a
restart would otherwise wait for all of this. The computed values are discarded, because a checkpoint is restored
afterwards. The process then blocks at a start barrier: a FIFO, because a blocked read costs nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tfdist_trainer import heartbeat, log
from tfdist_trainer.errors import PeerLostError, StorageError

START_BARRIER_ENV: Final = "TFDIST_GATE"
"""Environment variable with the path of the FIFO; the launcher sets it for standby processes only."""

GO: Final = b"g"


class StartBarrier:
    """The point at which a standby process waits for its round to start.

    Args:
        path: the FIFO, to which the launcher writes `GO`.
        writer: the heartbeat, through which the launcher learns that the process is ready.
    """

    def __init__(self, path: Path, writer: heartbeat.HeartbeatWriter) -> None:
        self._path = path
        self._heartbeat = writer

    def wait(self) -> None:
        """Report that this process is ready, and return when the round starts.

        Raises:
            PeerLostError: the launcher has exited.
        """
        log.event("ready")
        # Before it blocks: the launcher opens the barrier only for a process that is ready.
        self._heartbeat.mark_ready()
        with self._path.open("rb", buffering=0) as fifo:
            if fifo.read(1) != GO:
                raise PeerLostError("the launcher of this standby process has exited")
        log.also()


def start_barrier_from(environ: Mapping[str, str], number: int) -> StartBarrier | None:
    """Return the start barrier of this process; None if it is not a standby process.

    From then on every log line of a standby process carries `standby=<number>`, the round that it waits for.

    Raises:
        StorageError: it has no heartbeat, so it could not report that it is ready, and must not start by itself.
    """
    writer = heartbeat.attach(environ)
    if not environ.get(START_BARRIER_ENV):
        return None
    # It could not tell that it is ready, and must not start a round by itself.
    if writer is None:
        raise StorageError(
            f"standby process of round {number}: its heartbeat {environ.get(heartbeat.HEARTBEAT_ENV)} cannot be used; "
            "keep the folder of the launcher until its end"
        )
    log.also(standby=number)
    return StartBarrier(Path(environ[START_BARRIER_ENV]), writer)
