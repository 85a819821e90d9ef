"""One line on standard output for each event: the time, the event's name, and fields; no URL has credentials."""

import contextlib
import sys
from typing import TextIO

from tfdist.url_credentials import without_credentials
from tfdist_trainer.timestamps import now_text

_also: dict[str, object] = {}


def also(**fields: object) -> None:
    """Append `fields` to every further event; replaces the fields of the last call."""
    _also.clear()
    _also.update(fields)


def event(name: str, /, **fields: object) -> None:
    """Write `name` and `fields` as one line, floats with 4 significant digits."""
    text = " ".join(f"{key}={_text(value)}" for key, value in {**fields, **_also}.items() if value is not None)
    _write(f"{now_text()} {name} {text}".rstrip(), sys.stdout)


def error(text: str) -> None:
    """Write the error message of this replica to standard error, as one line."""
    _write(text, sys.stderr)


def _write(line: str, stream: TextIO | None) -> None:
    """Write a line; a script may have closed the stream, or the program that reads it may have ended."""
    with contextlib.suppress(OSError, ValueError):
        print(without_credentials(line), file=stream, flush=True)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"  # noqa: PLR2004  no exponents for counts
    text = str(value)
    return f'"{text}"' if " " in text else text
