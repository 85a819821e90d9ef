"""SIGTERM: a notice that this replica will be killed after a grace period.

The training loop asks `requested` and, when the gang has agreed on a step, saves it and exits 42. But the
main thread may be inside a collective that never returns, and Python runs signal handlers on the main thread
alone. So a second thread, woken by the signal itself, ends the process when the loop has not done so in
time, or at once when there is nothing to save.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a process that SIGTERM ends, which the controller expects of one it told to stop."""

PATIENCE_SECONDS: Final = 20.0
"""Two thirds of Kubernetes' default grace period of 30 s."""


class Notice:
    """Whether SIGTERM has arrived. `can_save` is set by a loop that will save and exit by itself."""

    def __init__(self, last_words: Callable[[str], None], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._last_words = last_words
        self._patience_seconds = patience_seconds
        self._arrived = threading.Event()
        self.can_save = False

    @property
    def requested(self) -> bool:
        """Whether the loop should save and stop."""
        return self._arrived.is_set()

    def install(self) -> None:
        """Start listening; the main thread calls this once."""
        reader, writer = socket.socketpair()
        writer.setblocking(False)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self.renew()
        threading.Thread(target=self._listen, args=(reader, writer), name="notice", daemon=True).start()

    def renew(self) -> None:
        """Listen again after joining the gang.

        TensorFlow's coordination service takes SIGTERM for itself when it starts
        (`xla/tsl/distributed_runtime/preemption/preemption_notifier.cc`).
        """
        # A handler of ours, even an empty one: process 1 of a container ignores a signal without one, and
        # Python's own handler, which wakes the thread, is there only for signals that have one.
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)

    def _listen(self, reader: socket.socket, _writer: socket.socket) -> None:
        while signal.SIGTERM not in reader.recv(64):
            pass
        self._arrived.set()
        deadline = time.monotonic() + self._patience_seconds
        while self.can_save and time.monotonic() < deadline:
            time.sleep(0.05)
        self._last_words("SIGTERM arrived, and no checkpoint could be agreed on in time")
        os._exit(TERMINATED)
