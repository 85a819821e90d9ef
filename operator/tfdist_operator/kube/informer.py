"""Keeps a store equal to the API server: list, watch, and list again when the watch cannot go on.

A list is streamed: the server sends each object as an event and says when that was all. So no more than one object is
held at a time, and the same connection goes on as the watch. Servers that cannot do it are asked page by page.

What a list does not hold is gone and removed from the store, which is how deletions during a gap are noticed. A watch
is resumed from the last version that it brought, bookmarks included, so a broken connection costs no list.
`last_contact` is when the server was last heard of; a watch that is silent for longer than the server's own bookmarks
allow is dead and is replaced.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, Gone, Refused
from tfdist_operator.kube.reached import EVERYWHERE
from tfdist_operator.metrics import WATCH_RESTARTS

log = logging.getLogger(__name__)

Raw = Mapping[str, Any]

_PAGE: Final = "500"
_WATCH_SECONDS: Final = 300
_SILENCE_SECONDS: Final = 120.0
"""The API server sends a bookmark about every minute."""
_PAUSE_SECONDS: Final = 0.1
"""Between two watches: a server that ends each at once is not asked in a tight loop."""
_LONGEST_RETRY_SECONDS: Final = 8.0
_LONGEST_LINE: Final = 8 * 1024 * 1024
_END_OF_LIST: Final = "k8s.io/initial-events-end"


class Sink(Protocol):
    """What an informer feeds. Objects come as the API server gives them."""

    def take(self, raw: Raw) -> None:
        """Take in an object that is new or has changed.

        Raises:
            KeyError, TypeError, ValueError: the object is not one of ours after all.
        """

    def drop(self, raw: Raw) -> None:
        """Forget an object that the API server has deleted.

        Raises:
            KeyError, TypeError, ValueError: as for `take`.
        """

    def retain(self, uids: AbstractSet[str], version: int, namespace: str = EVERYWHERE) -> None:
        """Forget what a list of `namespace` at `version` did not hold, unless it was made since."""

    def reached(self, version: int, namespace: str = EVERYWHERE) -> None:
        """Remember that everything of `namespace` up to `version` has been told."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A kind of objects: the path of its collection, its plural, and the labels to choose by."""

    path: str
    plural: str
    selector: str = ""
    namespace: str = EVERYWHERE

    @classmethod
    def of(cls, group_version: str, plural: str, namespace: str, selector: str = "") -> "Watched":
        """Return the kind in one namespace, or in all when `namespace` is empty."""
        within = f"namespaces/{namespace}/" if namespace else ""
        return cls(f"/{group_version}/{within}{plural}", plural, selector, namespace)


class Informer:
    """Feeds a `Sink` with the objects of one kind."""

    def __init__(self, client: Client, watched: Watched, sink: Sink) -> None:
        self._client = client
        self._watched = watched
        self._sink = sink
        self._version = ""
        self._listing: set[str] | None = None
        self._streams_lists = True
        self._failures = 0
        self.synced = asyncio.Event()
        self.last_contact = time.monotonic()
        WATCH_RESTARTS.labels(resource=self.plural)  # shown from 0 on

    @property
    def plural(self) -> str:
        """The plural of the kind."""
        return self._watched.plural

    @property
    def what(self) -> str:
        """What is watched, in words."""
        return f"{self.plural} of {self._watched.namespace}" if self._watched.namespace else self.plural

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if not self._version and not self._streams_lists:
                    await self._list_pages()
                await self._watch()
            except Gone as error:
                log.info("list again", extra={"resource": self.what, "why": str(error)})
                self._version = ""
            except Refused as error:
                self._refused(error)
                await self._back_off(error)
            except ApiError as error:
                await self._back_off(error)
            WATCH_RESTARTS.labels(resource=self.plural).inc()
            await asyncio.sleep(_PAUSE_SECONDS)

    def _refused(self, error: ApiError) -> None:
        """Ask for pages from now on, if it was a streamed list that the server did not want."""
        if self._version or not self._streams_lists:
            return
        log.info("the server does not stream lists", extra={"resource": self.what, "answer": str(error)})
        self._streams_lists = False

    async def _back_off(self, error: ApiError) -> None:
        self._failures += 1
        fields = {"resource": self.what, "error": str(error), "failures": self._failures}
        log.warning("watch interrupted; it is resumed", extra=fields)
        longest = min(0.1 * 2 ** min(self._failures, 8), _LONGEST_RETRY_SECONDS)
        await asyncio.sleep(longest * random.uniform(0.5, 1))  # noqa: S311  replicas need not ask at the same moment

    async def _list_pages(self) -> None:
        seen: set[str] = set()
        query = {"labelSelector": self._watched.selector, "limit": _PAGE}
        while True:
            page = await self._client.request("GET", self._watched.path, resource=self.plural, query=query)
            for item in page["items"]:
                self._take(item)
                seen.add(item["metadata"]["uid"])
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                break
        self._listed(seen, page["metadata"]["resourceVersion"])

    def _listed(self, uids: AbstractSet[str], version: str) -> None:
        self._version = version
        self._failures = 0
        self._sink.retain(uids, int(version), self._watched.namespace)
        self._sink.reached(int(version), self._watched.namespace)
        self.last_contact = time.monotonic()
        self.synced.set()

    async def _watch(self) -> None:
        query = {
            "watch": "1",
            "labelSelector": self._watched.selector,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS + random.randrange(60)),  # noqa: S311  spreads reconnections
        }
        if self._version:
            query["resourceVersion"] = self._version
        else:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        self._listing = None if self._version else set()
        path, silence = self._watched.path, _SILENCE_SECONDS
        async with self._client.stream(path, resource=self.plural, read_timeout_seconds=silence, query=query) as lines:
            buffer = b""
            async for chunk in lines.iter_any():
                *complete, buffer = (buffer + chunk).split(b"\n")
                for line in complete:
                    self._handle(orjson.loads(line))
                if len(buffer) > _LONGEST_LINE:
                    raise Gone(0, "Malformed", "a watch event is longer than any object can be")

    def _handle(self, event: dict[str, Any]) -> None:
        self.last_contact = time.monotonic()
        self._failures = 0
        kind, item = event["type"], event["object"]
        if kind == "ERROR":
            raise Gone(item.get("code", 410), item.get("reason", "Expired"), item.get("message", ""))
        meta = item["metadata"]
        if kind != "BOOKMARK":
            self._take(item, gone=kind == "DELETED")
        if self._listing is None:
            self._version = meta["resourceVersion"]
            self._sink.reached(int(self._version), self._watched.namespace)
        elif kind == "BOOKMARK" and _END_OF_LIST in (meta.get("annotations") or {}):
            listed, self._listing = self._listing, None
            self._listed(listed, meta["resourceVersion"])
        elif kind != "BOOKMARK":
            self._listing.add(meta["uid"])

    def _take(self, item: dict[str, Any], *, gone: bool = False) -> None:
        """Take in an object; one that only looks like ours costs a line in the log and nobody else anything."""
        try:
            (self._sink.drop if gone else self._sink.take)(item)
        except (KeyError, TypeError, ValueError) as error:
            name = f"{item['metadata'].get('namespace')}/{item['metadata'].get('name')}"
            fields = {"resource": self.plural, "object": name, "error": repr(error)}
            log.warning("object carries our label but not our format; ignored", extra=fields)
