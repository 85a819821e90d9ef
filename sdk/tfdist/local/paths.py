"""Paths in a pod, and the folders that stand for them on this machine.

A process sees no mounts. So wherever a mount's path stands in a text, whole or as the beginning of a longer path, the
folder is put in its place.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Paths:
    """The mounts of one replica."""

    def __init__(self, mounts: Mapping[str, Path]) -> None:
        """Know the folder behind each path in the container."""
        self._mounts = {_bare(path): folder for path, folder in mounts.items()}
        longest_first = sorted(self._mounts, key=len, reverse=True)
        # not inside of a longer path or URL (`gs://bucket/data`), nor the beginning of another name (`/database`)
        anywhere = "|".join(map(re.escape, longest_first)) or r"(?!)"
        self._pattern = re.compile(rf"(?<![\w./@~}})-])(?:{anywhere})(?![\w.-])")

    def here(self, text: str) -> str:
        """Return `text` with every path below a mount as a path of this machine."""
        return self._pattern.sub(lambda found: str(self._mounts[found[0]]), text)

    def all_here(self, value: Any) -> Any:
        """Return a JSON value with `here` applied to every text in it but the names of fields."""
        if isinstance(value, str):
            return self.here(value)
        if isinstance(value, Mapping):
            return {key: self.all_here(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.all_here(item) for item in value]
        return value


def _bare(path: str) -> str:
    return path.rstrip("/") or path
