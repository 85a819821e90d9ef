"""Postpones Ctrl-C, so that steps which belong together are all done or all undone."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def postponed_interrupt() -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt if Ctrl-C has arrived; in the block only a second one raises it.

    Without effect outside of the main thread, which alone gets signals, and with a handler of the application's own.
    """
    is_pending = False

    def record(number: int, frame: Any) -> None:
        nonlocal is_pending
        if is_pending:
            signal.default_int_handler(number, frame)
        is_pending = True

    def check() -> None:
        if is_pending:
            raise KeyboardInterrupt

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, record)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()
