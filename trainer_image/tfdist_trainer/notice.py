"""SIGTERM: a notice that this replica will be killed after a grace period.

The training loop asks `requested` and, when the gang has agreed on a step, saves it and exits 42. But the
main thread may be inside a collective that never returns, and Python runs signal handlers on the main thread
alone. So a second thread waits for the signal itself, and ends the process when the loop has not done so in
time, or at once when there is nothing to save.

The signal is blocked in every thread and taken by that one (`sigwait`). No handler is involved, so none can be
replaced: TensorFlow's coordination service puts its own in place when it starts
(`xla/tsl/distributed_runtime/preemption/preemption_notifier.cc`), and a notice that came while the gang was
joined would be lost. Process 1 of a container gets it too, for a blocked signal is never ignored.

A second thread is needed for limits of time too: nothing else ends what the main thread waits for inside TensorFlow.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from tfdist_trainer import log
from tfdist_trainer.errors import TrainerError

TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code of a process that SIGTERM ends, which the controller expects of one it told to stop."""

PATIENCE_SECONDS: Final = 20.0
"""Two thirds of Kubernetes' default grace period of 30 s."""


class Notice:
    """Whether SIGTERM has arrived. `can_save` is set by a loop that will save and exit by itself.

    Args:
        last_words: told (reason, message) before the process is ended here.
        patience_seconds: how long a loop may take to save.
    """

    def __init__(self, last_words: Callable[[str, str], None], *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._last_words = last_words
        self._patience_seconds = patience_seconds
        self._arrived = threading.Event()
        self.can_save = False

    @property
    def requested(self) -> bool:
        """Whether the loop should save and stop."""
        return self._arrived.is_set()

    def install(self) -> None:
        """Start listening; the main thread calls this before any other thread is started.

        Threads inherit what is blocked; one that is older would take the signal.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self._listen, name="notice", daemon=True).start()

    @contextlib.contextmanager
    def limit(self, seconds: float, failure: TrainerError) -> Iterator[None]:
        """End the process with `failure` when what is inside takes longer than `seconds`."""
        timer = threading.Timer(seconds, self._fail, [failure])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _fail(self, failure: TrainerError) -> None:
        log.error(f"tfdist-train: {failure}")
        self._last_words(failure.reason, str(failure))
        os._exit(failure.exit_code)

    def _listen(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self._arrived.set()
        deadline = time.monotonic() + self._patience_seconds
        while self.can_save and time.monotonic() < deadline:
            time.sleep(0.05)
        self._last_words("Terminated", "SIGTERM arrived, and no checkpoint could be agreed on in time")
        os._exit(TERMINATED)
