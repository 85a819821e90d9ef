"""URLs of objects, `s3://bucket/key` and `gs://bucket/key`, and patterns of them. Imports neither NumPy nor TensorFlow.

Patterns are as of `glob` with `recursive=True`: `*`, `?` and `[...]` match within a part of the key between two
slashes, and not a dot at its start; `**` matches any number of parts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tfdist.programs.data import OBJECT_STORES

RECURSIVE: Final = "**"
_MAGIC: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class BucketObject:
    """A version of an object."""

    url: str
    key: str
    size: int
    """Bytes."""
    version: str
    """Its ETag, which changes with its content; the time of its last change if the store returns none."""


def is_url(name: str) -> bool:
    """Return whether `name` is the URL of an object, or a pattern of such URLs, and not a path."""
    return name.startswith(OBJECT_STORES)


def split(url: str) -> tuple[str, str]:
    """Return the URL of the bucket, `s3://bucket`, and the key of the object."""
    scheme, _, path = url.partition("://")
    bucket, _, key = path.partition("/")
    return f"{scheme}://{bucket}", key


def join_url(folder: str, name: str) -> str:
    """Return the URL or path `name`, where a relative one is relative to the folder with the URL `folder`."""
    if is_url(name) or name.startswith("/"):
        return name
    bucket, key = split(folder)
    parts: list[str] = []
    for part in [*key.split("/"), *name.split("/")]:
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return f"{bucket}/{'/'.join(parts)}"


def is_pattern(part: str) -> bool:
    """Return whether `part` of a key has wildcards."""
    return bool(_MAGIC.search(part))


def matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the `parts` of a key match the parts of a `pattern`."""
    if not pattern:
        return not parts
    if pattern[0] == RECURSIVE:
        hidden = next((number for number, part in enumerate(parts) if part.startswith(".")), len(parts))
        return any(matches(parts[skipped:], pattern[1:]) for skipped in range(hidden + 1))
    return bool(parts) and part_matches(parts[0], pattern[0]) and matches(parts[1:], pattern[1:])


def part_matches(part: str, pattern: str) -> bool:
    """Return whether one `part` of a key matches one of a pattern."""
    if not is_pattern(pattern):
        return part == pattern
    return fnmatchcase(part, pattern) and (pattern.startswith(".") or not part.startswith("."))
