"""What a person, or a file, sees of a local run: the replicas' lines by role, and below them how far it is.

On a terminal the last line is a progress bar, written over again and again; elsewhere progress is a plain line now
and then. Replicas have colours on a terminal whose user wants them (https://no-color.org).
"""

import errno
import shutil
from collections.abc import Callable, Sequence
from typing import Final, TextIO

_COLOURS: Final = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_CLEAR: Final = "\r\033[K"
_PLAIN_SECONDS: Final = 10.0


class Screen:
    """Writes to one stream."""

    def __init__(
        self, stream: TextIO, names: Sequence[str], *, terminal: bool, colour: bool, clock: Callable[[], float]
    ) -> None:
        """Know the replicas, whose names get one width; `clock` returns seconds that only grow."""
        self._stream = stream
        self._terminal = terminal
        self._clock = clock
        self._width = max(map(len, names), default=0)
        self._colours = dict(zip(names, _COLOURS * (1 + len(names) // len(_COLOURS)), strict=False)) if colour else {}
        self._bar = ""
        self._told, self._told_at = "", float("-inf")

    def say(self, text: str) -> None:
        """Write lines of the run's own."""
        self._write("".join(f"{line}\n" for line in text.splitlines()))

    def log(self, name: str, lines: Sequence[str]) -> None:
        """Write lines of a replica, each behind its name."""
        prefix = f"{name:<{self._width}} | "
        if name in self._colours:
            prefix = f"\033[{self._colours[name]}m{prefix}\033[0m"
        if lines:
            self._write("".join(f"{prefix}{line}\n" for line in lines))

    def progress(self, text: str) -> None:
        """Show how far it is: at once on a terminal, elsewhere when it has changed and some time has passed."""
        if self._terminal:
            shown = text[: shutil.get_terminal_size().columns - 1]
            if shown != self._bar:
                self._bar = shown
                self._write("")
        elif text != self._told and self._clock() - self._told_at >= _PLAIN_SECONDS:
            self._told, self._told_at = text, self._clock()
            self._write(f"{text}\n")

    def end(self) -> None:
        """Take the progress bar away."""
        self._bar = ""
        self._write("")

    def _write(self, text: str) -> None:
        clear = _CLEAR if self._terminal else ""
        try:
            self._stream.write(f"{clear}{text}{self._bar}")
            self._stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            # the terminal is gone (SIGHUP): the replicas shall have their grace period all the same
            if error.errno != errno.EIO:
                raise
