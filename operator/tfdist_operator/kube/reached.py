"""How far the watches are, by namespace: what decides whether the answer to a request of our own is news.

Where the controller acts in named namespaces each has watches of its own, and one that is ahead says nothing of what
another has told.
"""

from typing import Final

EVERYWHERE: Final = ""
"""The one scope of a controller that acts in all namespaces."""


class Reached:
    """The versions up to which the watch of each scope has told everything."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}

    def set(self, version: int, namespace: str) -> None:
        """Remember how far the watch of a namespace, or that of all, is."""
        self._versions[namespace] = version

    def has_passed(self, version: int, namespace: str) -> bool:
        """Tell whether the watch that an object of `namespace` comes by has told everything up to `version`."""
        return version <= self._versions.get(namespace, self._versions.get(EVERYWHERE, 0))
