"""Text of pods and tenants as it may be printed to a terminal: without control characters."""

import re
from typing import Final

_UNPRINTABLE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\ud800-\\udfff\\U00013430-\\U0001343f\\U0001bca0-\\U0001bca3\\U0001d173-\\U0001d17a"
    "\\U000e0000-\\U000e007f]"
)
"""Unicode's control and format characters, line and paragraph separators, and surrogates (Cc, Cf, Zl, Zp, Cs), except
tab and line feed, the joiners that scripts and emoji need (U+200C, U+200D), and the visible signs before numbers."""


def is_printable(text: str) -> bool:
    """Return whether `printable` would leave `text` as it is."""
    return _UNPRINTABLE.search(text) is None


def printable(text: str) -> str:
    """Return `text` with each control character replaced by a space: it is printed to terminals."""
    return _UNPRINTABLE.sub(" ", text)


def escaped_json(text: str) -> str:
    """Return a JSON document with each control character, which only a string can have, escaped: the same values."""
    return _UNPRINTABLE.sub(_escape, text)


def _escape(character: re.Match[str]) -> str:
    units = character[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


_COLOUR: Final = re.compile("(\x1b\\[[0-9;:]*m)")
_NO_COLOUR: Final = "\x1b[0m"


def printable_line(line: str) -> str:
    """Return a line as `printable` does, except that colours (SGR sequences) stay, and end with the line."""
    if is_printable(line):
        return line
    texts = _COLOUR.split(line)
    texts[::2] = map(printable, texts[::2])
    return "".join(texts) + (_NO_COLOUR if len(texts) > 1 and not line.endswith(_NO_COLOUR) else "")
