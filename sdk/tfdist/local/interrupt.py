"""SIGINT, SIGTERM and SIGHUP during a run: a handler counts them, and the run checks the count when it polls."""

import signal
from types import FrameType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Context manager that counts signals instead of taking their default action."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._on_signal) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def name(self) -> str:
        """Name of the last signal for messages."""
        return "Ctrl-C" if self._last == signal.SIGINT else signal.Signals(self._last).name

    @property
    def code(self) -> int:
        """Exit code of a run that the last signal ended: 128 plus its number."""
        return 128 + self._last

    def _on_signal(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signature of a handler
        self.count += 1
        self._last = number
