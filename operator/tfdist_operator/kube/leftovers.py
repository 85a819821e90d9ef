"""Which jobs have a Service or a NetworkPolicy: asked once by a process that takes over, and not once for each job.

Thousands of jobs that ended long ago are there when a controller starts. Nobody has noted whether the last one lived to
remove their objects, since the status of an ended job never changes.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from tfdist_operator.kube.objects import Objects

KINDS: Final = ("Service", "NetworkPolicy")


class Leftovers:
    """What was there when it was first asked for, in `namespaces`, of which "" stands for all.

    Only the leader asks, and nobody else makes such objects, so what was not there then is not there later.
    """

    def __init__(self, objects: Objects, namespaces: Sequence[str]) -> None:
        self._objects = objects
        self._namespaces = namespaces
        self._found: dict[str, set[str]] = {}
        self._asking = asyncio.Lock()

    async def has(self, kind: str, job_uid: str) -> bool:
        """Return whether a job had an object of `kind`.

        Raises:
            ApiError: the server refused or does not answer.
        """
        async with self._asking:
            if kind not in self._found:
                found = [await self._objects.left(kind, namespace) for namespace in self._namespaces]
                self._found[kind] = set().union(*found)
        return job_uid in self._found[kind]
