"""Commands as a user runs them in a terminal, with what they print, compared with the texts in `golden_cli/`.

UPDATE_GOLDEN=1 writes the texts again, to be read as a change of the output.
"""

import builtins
import contextlib
import datetime as dt
import io
import os
import pathlib
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from support.stored_jobs import LATER
from tfdist.cli.main import main

GOLDEN: Final = pathlib.Path(__file__).parents[1] / "unit/golden_cli"
WIDTHS: Final = (80, 200, None)
"""Columns of a terminal; None is no terminal."""

_CLOCKS: Final = ("cli.commands.show", "cli.commands.usage", "client.job_handle", "client.doctor")
_GENERATED: Final = ((re.compile(r"-code-[0-9a-f]{8}\b"), "-code-1b3cf334"),)
"""The hash of an archive depends on the version of zlib."""


def check(name: str, text: str) -> None:
    """Compare a text with a golden file."""
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "run with UPDATE_GOLDEN=1 if the change is intended"


class _Stream(io.StringIO):
    """A terminal, or none, that shows standard output and standard error together."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class Transcript:
    """Runs commands; `text` has them after a `$ `, with their output."""

    def __init__(self, width: int | None) -> None:
        self._stream = _Stream(is_terminal=width is not None)

    @property
    def text(self) -> str:
        """All commands and their output."""
        text = self._stream.getvalue()
        for pattern, fixed in _GENERATED:
            text = pattern.sub(fixed, text)
        return text

    def run(self, *commands: str, code: int = 0, answers: Sequence[str] = ()) -> None:
        """Run commands, and answer their questions; each must end with an exit code."""
        remaining = iter(answers)

        def answer(question: str) -> str:
            text = next(remaining)
            self._stream.write(f"{question}{text}".rstrip() + "\n")
            return text

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins, "input", answer)
            patch.setattr(sys, "stdin", _Stream(is_terminal=bool(answers)))
            for command in commands:
                self._stream.write(f"$ {command}\n")
                with contextlib.redirect_stdout(self._stream), contextlib.redirect_stderr(self._stream):
                    ended = main(shlex.split(command)[1:])
                assert ended == code, self.text

    def show_exit_code(self, code: int) -> None:
        """Write the exit code of the last command as a user of a shell reads it."""
        self._stream.write(f"$ echo $?\n{code}\n")


@contextlib.contextmanager
def terminal(width: int | None) -> Iterator[None]:
    """Have a terminal of a width without colour, whose day is that of the stored jobs."""

    class Clock(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return LATER.astimezone(tz)

    clock = SimpleNamespace(strftime=time.strftime, gmtime=LATER.timetuple, time=time.time)
    with pytest.MonkeyPatch.context() as patch:
        for module in _CLOCKS:
            patch.setattr(f"tfdist.{module}.datetime", Clock)
        patch.setattr("tfdist.cli.commands.doctor.time", clock)
        patch.setenv("COLUMNS", str(width or 80))
        patch.setenv("TERM", "xterm")
        patch.setenv("NO_COLOR", "1")
        yield


def transcript(width: int | None, run: Callable[[Transcript], None]) -> str:
    """Return the output of commands: without colour, and if there is no terminal never cut."""
    script = Transcript(width)
    with terminal(width):
        run(script)
    assert "\033" not in script.text
    assert width is not None or "…" not in script.text
    return script.text
