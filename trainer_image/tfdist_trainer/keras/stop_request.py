"""SIGTERM while a script trains: the workers agree on a step, save it and exit.

The main thread may be blocked in a collective, and Python runs signal handlers on the main thread only. But the signal
itself writes to a pipe at once (`signal.set_wakeup_fd`), and a thread that reads it ends the process if training has
not done so in time. TensorFlow's preemption notifier installs another handler with the strategy, so this one is
installed when `fit` begins. A handler of the script stays.
"""

import os
import signal
import threading

from tfdist_trainer import log
from tfdist_trainer.preemption import PreemptionHandler


class StopRequest(PreemptionHandler):
    """Records SIGTERM, and ends the process when `fit` does not, or at once while none runs."""

    def install(self) -> None:
        """Handle SIGTERM, unless the script handles it: then the script defines how it stops."""
        if signal.getsignal(signal.SIGTERM) not in {signal.SIG_DFL, None}:
            log.event("sigterm-of-script", effect="no checkpoint is saved at SIGTERM")
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            signal.signal(signal.SIGTERM, lambda *_: self._arrived.set())
            previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        except ValueError:  # `fit` runs in a thread
            return
        if previous >= 0:
            signal.set_wakeup_fd(previous)  # of an event loop of the script
            return
        threading.Thread(target=self._wait, args=(reader,), name="stop-request", daemon=True).start()

    def _wait(self, reader: int) -> None:
        while signal.SIGTERM not in os.read(reader, 64):
            pass
        self._await_end()
