"""The positions of waiting jobs in their queues, from Kueue's API of pending Workloads, which it may not serve.

Kueue computes them for each request, and no watch reports them: they are read once a minute for each queue in which a
job waits, and for each new job among the first ones.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError
from tfdist_operator.kube.pages import items

log = logging.getLogger(__name__)

_PATH: Final = "/apis/visibility.kueue.x-k8s.io/{version}/namespaces/{namespace}/localqueues/{queue}/pendingworkloads"
_SECONDS: Final = 60.0
_WITHOUT_SECONDS: Final = 600.0
"""Delay of the next request after an error: an installation may not have the API."""
_LAST: Final = 100
"""The last position that is read: the status of a job further behind would be written often, with little use."""

Queue = tuple[str, str]
"""Namespace and name of a LocalQueue."""


class QueuePositions:
    """Positions by Workload.

    Args:
        client: client of the API server.
        version: returns the served version of Kueue's API.
        clock: monotonic, in seconds.
    """

    def __init__(self, client: Client, version: Callable[[], str], clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._version = version
        self._clock = clock
        self._known: dict[Queue, tuple[float, Mapping[str, int]]] = {}
        """Each with the time until which it is current."""

    async def position(self, queue: Queue, workload: str) -> int | None:
        """Return the position of a Workload in its LocalQueue, from 1; None if it is not known."""
        now = self._clock()
        self._known = {key: entry for key, entry in self._known.items() if entry[0] > now}
        expires_at, entry = self._known.get(queue, (0.0, {}))
        if workload not in entry and len(entry) < _LAST and expires_at <= now + _SECONDS:
            self._known[queue] = await self._read(queue)
        return self._known[queue][1].get(workload)

    async def _read(self, queue: Queue) -> tuple[float, Mapping[str, int]]:
        path = _PATH.format(version=self._version(), namespace=queue[0], queue=queue[1])
        try:
            page = await self._client.request("GET", path, resource="pendingworkloads", query={"limit": str(_LAST)})
            positions = {item["metadata"]["name"]: int(item["positionInLocalQueue"]) + 1 for item in items(page)}
        except (ApiError, LookupError, TypeError, ValueError) as error:
            log.info("positions in a queue are not known", extra={"queue": "/".join(queue), "error": str(error)})
            return self._clock() + _WITHOUT_SECONDS, {}
        return self._clock() + _SECONDS, positions
