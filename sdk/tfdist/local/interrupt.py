"""SIGINT, SIGTERM and SIGHUP while a run is on: counted, and raised where the run looks."""

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

_HEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818  it is what the user wanted
    """The user, or the system, wants the run to stop; `code` is the exit code that says so."""

    def __init__(self, number: int) -> None:
        super().__init__("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)
        self.code = 128 + number


class Interrupts:
    """Counts signals while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self._last = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._hear) for number in _HEARD}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise `Interrupted` once a signal has come."""
        if self.count:
            raise Interrupted(self._last)

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  the signature of a handler
        self.count += 1
        self._last = number
