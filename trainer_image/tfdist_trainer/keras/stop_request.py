"""SIGTERM while a script trains: the workers agree on a step, save it if the job has `checkpoint`, and exit.

The main thread may be blocked in a collective, and Python runs signal handlers on the main thread only. But the signal
itself writes to a pipe at once (`signal.set_wakeup_fd`), and a thread that reads it ends the process if training has
not done so in time. TensorFlow's preemption notifier installs another handler with the strategy, so this one is
installed when `fit` begins. A handler of the script stays.
"""

import functools
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tfdist_trainer import log, script, script_end
from tfdist_trainer.errors import PeerLostError
from tfdist_trainer.preemption import TERMINATED, PreemptionHandler
from tfdist_trainer.upstream.strategy_worker import worker_of


class StopRequest(PreemptionHandler):
    """Records SIGTERM, and ends the process when `fit` does not, or at once while none runs."""

    def install(self) -> None:
        """Handle SIGTERM, unless the script handles it: then the script defines how it stops."""
        # A script that handles SIGTERM has its own way to stop.
        if signal.getsignal(signal.SIGTERM) not in {signal.SIG_DFL, None}:
            log.event("sigterm-of-script", effect="fit neither saves nor stops at SIGTERM")
            return
        reader, writer = os.pipe()
        # Written by the signal handler in C, which must not block.
        os.set_blocking(writer, False)
        try:
            # A handler is needed for the wakeup descriptor to get the signal.
            signal.signal(signal.SIGTERM, lambda *_: self._arrived.set())
            previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        except ValueError:  # `fit` runs in a thread
            return
        # There is one descriptor in a process: the script's event loop keeps it.
        if previous >= 0:
            signal.set_wakeup_fd(previous)  # of an event loop of the script
            return
        threading.Thread(target=self._wait, args=(reader,), name="stop-request", daemon=True).start()

    def _wait(self, reader: int) -> None:
        # Other signals of the script write here, too.
        while signal.SIGTERM not in os.read(reader, 64):
            pass
        self._await_end()


class StoppedFit:
    """Ends every `fit` of several workers between two calls after SIGTERM, in a job without `checkpoint`.

    Outside of `fit` the script goes on within the grace period: it may save what it has trained.
    """

    def __init__(self, seconds: float) -> None:
        """Begin; `seconds` after SIGTERM the process ends in any case."""
        self._request = StopRequest(script.write_termination_message, patience_seconds=seconds)
        self._request.can_save = True
        self._install = functools.cache(self._request.install)
        self._stop = False

    def wrap_fit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `fit` that stops."""

        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            if worker_of(model.distribute_strategy) is not None:
                self._install()
                model.make_train_function()
                model.train_function.observer = self
            return original(model, *args, **kwargs)

        return fit

    # As `CallObserver`.

    def before_call(self) -> None:
        """Leave if the workers have agreed on it: those that have not received SIGTERM have lost their peers."""
        if not self._stop:
            return
        log.event("stopped", reason="SIGTERM", effect="nothing is saved, because the job has no checkpoint")
        # Only the worker that was told to stop ends as terminated; the others have lost a peer.
        if self._request.is_requested:
            script_end.leave("Terminated", "SIGTERM arrived, and the job has no checkpoint", TERMINATED)
        script_end.leave_with(PeerLostError("another worker has stopped after SIGTERM, and the job has no checkpoint"))

    def flag(self) -> bool:
        """Return whether this worker has to stop."""
        return self._request.is_requested

    def after_call(self, steps: int, flag: bool, metrics: Sequence[Any]) -> None:  # noqa: ARG002
        """Stop after the call if a worker has to."""
        self._stop = self._stop or flag
