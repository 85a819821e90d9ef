"""Translates paths of a container to folders of this machine.

A process has no mounts. Every occurrence of a mount path in a text, on its own or as the beginning of a longer path,
is replaced by the folder of the volume.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Paths:
    """Mounts of one replica."""

    def __init__(self, mounts: Mapping[str, Path]) -> None:
        """Take the mounts: path in the container -> folder."""
        self._mounts = {_without_slash(path): folder for path, folder in mounts.items()}
        longest_first = sorted(self._mounts, key=len, reverse=True)
        # no match inside a longer path or URL (`gs://bucket/data`) or at the beginning of another name (`/database`)
        anywhere = "|".join(map(re.escape, longest_first)) or r"(?!)"
        self._pattern = re.compile(rf"(?<![\w./@~}})-])(?:{anywhere})(?![\w.-])")

    def translate(self, text: str) -> str:
        """Return `text` with every path below a mount replaced by its path on this machine."""
        return self._pattern.sub(lambda match: str(self._mounts[match[0]]), text)

    def translate_all(self, value: Any) -> Any:
        """Return a JSON value with every string in it translated, except the names of fields."""
        if isinstance(value, str):
            return self.translate(value)
        if isinstance(value, Mapping):
            return {key: self.translate_all(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.translate_all(item) for item in value]
        return value


def _without_slash(path: str) -> str:
    return path.rstrip("/") or path
