"""Preemption: SIGTERM announces that this replica is killed after a grace period.

The training loop checks `is_requested`; when the gang has agreed on a step, it saves that step and exits 42. But the
main thread may be blocked in a collective that never returns, and Python runs signal handlers on the main thread
only. So a second thread waits for the signal, and ends the process if the loop has not done so in time, or
immediately if there is nothing to save.

The signal is blocked in every thread, and that thread takes it with `sigwait`. No handler is left that could be
replaced: TensorFlow's coordination service installs its own when it starts
(`xla/tsl/distributed_runtime/preemption/preemption_notifier.cc`), and a SIGTERM that arrived during the join would be
lost. Process 1 of a container receives the signal too, because a blocked signal is never ignored.

Time limits need a second thread as well: nothing else ends a wait of the main thread inside TensorFlow.
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
"""Exit code of a process that SIGTERM ends; the controller expects it of a process that it stops."""


class PreemptionHandler:
    """Records SIGTERM, and ends the process when the training loop does not.

    A loop that saves and exits by itself sets `can_save`.

    Args:
        write_termination_message: called with (reason, message) before this class ends the process.
        patience_seconds: how long the loop may take to save, before the job is known.
    """

    def __init__(self, write_termination_message: Callable[[str, str], None], *, patience_seconds: float = 1.0) -> None:
        self._write_termination_message = write_termination_message
        self.patience_seconds = patience_seconds
        """How long the loop may take to save."""
        self._arrived = threading.Event()
        self.can_save = False

    @property
    def is_requested(self) -> bool:
        """Whether the loop should save and stop."""
        return self._arrived.is_set()

    def install(self) -> None:
        """Start waiting for SIGTERM. The main thread must call this before it starts any other thread.

        Threads inherit the signal mask; an older thread would receive the signal. So do child processes, such as those
        that load data, and `Process.terminate` would have no effect on them: forks unblock the signal again.
        """
        # Blocked, and taken by `sigwait`: TensorFlow replaces any handler when its coordination service starts.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        # Children that load data inherit the mask, and `Process.terminate` would have no effect on them.
        os.register_at_fork(after_in_child=_unblock)
        threading.Thread(target=self._listen, name="preemption", daemon=True).start()

    @contextlib.contextmanager
    def limit(self, seconds: float, failure: TrainerError) -> Iterator[None]:
        """End the process with `failure` if the body of the `with` statement takes longer than `seconds`."""
        # In a thread: nothing else ends a wait of the main thread inside TensorFlow.
        timer = threading.Timer(seconds, self._fail, [failure])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _fail(self, failure: TrainerError) -> None:
        log.error(f"tfdist-train: {failure}")
        self._write_termination_message(failure.reason, str(failure))
        # The main thread is blocked and cannot end the process.
        os._exit(failure.exit_code)

    def _listen(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self._await_end()

    def _await_end(self) -> None:
        """End the process when the loop has not done so in time; called by a thread when the signal has arrived."""
        self._arrived.set()
        deadline = time.monotonic() + self.patience_seconds
        # `can_save` may become false while training ends: then there is nothing to wait for.
        while self.can_save and time.monotonic() < deadline:
            time.sleep(0.05)
        self._write_termination_message("Terminated", "SIGTERM arrived, and no checkpoint could be agreed on in time")
        os._exit(TERMINATED)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
