"""Opens text files of examples, plain or GZIP, and finds the bytes in them that are not UTF-8."""

import gzip
import re
import zlib
from pathlib import Path
from typing import IO, Final

from tfdist_trainer.data.content import GIT_LFS, GZIP_MAGIC, head, kind_for_text
from tfdist_trainer.data.object_cache import local
from tfdist_trainer.errors import DataMalformedError

UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""Errors of a file that cannot be read, or whose compression is damaged."""
_ENCODING: Final = "utf-8-sig"
_DECODE_ERRORS: Final = "surrogateescape"
_LINE_END: Final = re.compile("\r\n|\r|\n")
_UNDECODED: Final = re.compile("[\udc80-\udcff]")
"""A byte that is not UTF-8, as the error handler `surrogateescape` decodes it."""


def open_text(name: str, kind: str, newline: str) -> IO[str]:
    r"""Open the file `name`, plain or GZIP; bytes that are not UTF-8 are decoded for `first_undecoded` to find.

    Args:
        name: the file.
        kind: the format that it is read as, for messages.
        newline: the line separator; "" for each of `\n`, `\r` and `\r\n`, which are kept.

    Raises:
        DataMalformedError: it is a file of another format.
        OSError: the file cannot be read.
    """
    start, path = head(name), local(name)
    if start.startswith(GZIP_MAGIC):
        with gzip.open(path) as content:
            _check_kind(name, kind, content.read(len(start)), "its decompressed content")
        return gzip.open(path, "rt", encoding=_ENCODING, errors=_DECODE_ERRORS, newline=newline)
    _check_kind(name, kind, start, "it")
    return Path(path).open(encoding=_ENCODING, errors=_DECODE_ERRORS, newline=newline)


def line_ends(text: str) -> int:
    """Return the number of line ends in `text`."""
    return len(_LINE_END.findall(text))


def first_undecoded(text: str) -> re.Match[str] | None:
    """Return the first byte of `text` that is not UTF-8."""
    return None if text.isascii() else _UNDECODED.search(text)


def not_utf8(match: re.Match[str]) -> str:
    """Return the message about a byte that `first_undecoded` has found."""
    remedy = "convert the file, for example by iconv -f WINDOWS-1252 -t UTF-8"
    return f"has the byte 0x{ord(match[0]) - 0xDC00:02x}, which is not UTF-8; {remedy}"


def _check_kind(name: str, expected: str, start: bytes, subject: str) -> None:
    """Raise `DataMalformedError` if `start` is the start of a file of another format."""
    kind = kind_for_text(start)
    if kind == GIT_LFS:
        raise DataMalformedError(
            f"{name}: not readable as {expected}: it is a {kind}; fetch the file with git lfs pull"
        )
    if kind:
        remedy = "convert it to UTF-8" if "UTF-16" in kind else f"set data.format, or convert it to {expected}"
        raise DataMalformedError(f"{name}: not readable as {expected}: {subject} begins like a {kind} file; {remedy}")
