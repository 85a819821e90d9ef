"""Keeps the pod store equal to the API server: list, watch, and list again when the watch cannot go on.

A list replaces the store: pods that vanished while nobody watched are removed. A watch is resumed from the last
version it brought, bookmarks included, so a broken connection costs no list. `last_contact` is when the server was
last heard of; a watch that is silent for longer than the server's own bookmarks allow is dead and is replaced.
"""

import asyncio
import logging
import random
import time
from typing import Any, Final

import orjson

from tfdist.render import names
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, Gone
from tfdist_operator.kube.pod_store import PodStore
from tfdist_operator.metrics import WATCH_RESTARTS

log = logging.getLogger(__name__)

_PAGE: Final = "500"
_WATCH_SECONDS: Final = 300
_SILENCE_SECONDS: Final = 120.0
"""The API server sends a bookmark about every minute."""
_PAUSE_SECONDS: Final = 0.1
"""Between two watches: a server that ends each at once is not asked in a tight loop."""
_LONGEST_LINE: Final = 8 * 1024 * 1024


class PodInformer:
    """Feeds a `PodStore` for one namespace, or for all when `namespace` is empty."""

    def __init__(self, client: Client, store: PodStore, namespace: str = "") -> None:
        self._client = client
        self._store = store
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._version = ""
        self.synced = asyncio.Event()
        self.last_contact = time.monotonic()

    async def run(self) -> None:
        """List and watch until cancelled."""
        failures = 0
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                failures = 0
            except Gone:
                self._version = ""
            except ApiError as error:
                failures += 1
                log.warning("pod watch interrupted; it is resumed", extra={"error": str(error), "failures": failures})
                await asyncio.sleep(min(0.1 * 2 ** min(failures, 8), 15) * random.uniform(0.5, 1))  # noqa: S311
            WATCH_RESTARTS.labels(resource="pods").inc()
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _list(self) -> None:
        pods: list[dict[str, Any]] = []
        query = {"labelSelector": names.POD_SELECTOR, "limit": _PAGE}
        while True:
            page = await self._client.request("GET", self._path, resource="pods", query=query)
            pods += page["items"]
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                break
        self._version = page["metadata"]["resourceVersion"]
        self._store.replace(pods, int(self._version))
        self.last_contact = time.monotonic()
        self.synced.set()

    async def _watch(self) -> None:
        query = {
            "watch": "1",
            "labelSelector": names.POD_SELECTOR,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS + random.randrange(60)),  # noqa: S311  spreads reconnections
        }
        path, silence = self._path, _SILENCE_SECONDS
        async with self._client.stream(path, resource="pods", read_timeout_seconds=silence, query=query) as lines:
            buffer = b""
            async for chunk in lines.iter_any():
                *complete, buffer = (buffer + chunk).split(b"\n")
                for line in complete:
                    self._take(orjson.loads(line))
                if len(buffer) > _LONGEST_LINE:
                    raise Gone(0, "Malformed", "a watch event is longer than any object can be")

    def _take(self, event: dict[str, Any]) -> None:
        self.last_contact = time.monotonic()
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise Gone(item.get("code", 410), item.get("reason", "Expired"), item.get("message", ""))
        self._version = item["metadata"]["resourceVersion"]
        if kind == "DELETED":
            self._store.remove(item)
        elif kind != "BOOKMARK":
            self._put(item)

    def _put(self, item: dict[str, Any]) -> None:
        """Take in a pod; one that only looks like ours costs a line in the log and nobody else anything."""
        try:
            self._store.put(item)
        except (KeyError, ValueError) as error:
            pod = f"{item['metadata'].get('namespace')}/{item['metadata'].get('name')}"
            log.warning("pod carries our label but not our format; ignored", extra={"pod": pod, "error": str(error)})
