"""SIGINT, SIGTERM and SIGHUP during a run: a handler counts them, and the run checks the count when it polls."""

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818  no error: the user requested the stop
    """The run received a signal to stop; `code` is its exit code, 128 plus the number of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        self.code = 128 + number


class Interrupts:
    """Context manager that counts signals instead of taking their default action."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise `Interrupted` if a signal has arrived."""
        if self.count:
            raise Interrupted(self._last)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signature of a handler
        self.count += 1
        self._last = number
