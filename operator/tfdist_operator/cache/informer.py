"""An informer, as client-go's reflector: it lists, watches, and lists again when the watch cannot be resumed.

`last_contact` is the time of the last data from the server, or of its answer to the request for a watch that resumes.

No content that the server stores or sends ends an informer: an object that the handler cannot parse is logged and
ignored, and every other error is retried with a growing delay.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import JSON, METADATA, METADATA_LIST, ApiClient
from tfdist_operator.kube.errors import ApiError, GoneError, RejectedError, SilentWatchError, error_for
from tfdist_operator.kube.json_bodies import LineBuffer, decode, list_items
from tfdist_operator.kube.keys import ALL_NAMESPACES
from tfdist_operator.metrics import WATCH_RESTARTS

log = logging.getLogger(__name__)

Raw = Mapping[str, Any]

_PAGE: Final = "500"
_WATCH_SECONDS: Final = 300
_SILENCE_SECONDS: Final = 120.0
"""An API server that sends bookmarks sends one about every minute."""
_PAUSE_SECONDS: Final = 0.1
"""Minimum pause between two watches: a server that ends each at once causes no tight loop."""
_RESUMED: Final = 3
"""Maximum number of consecutive error events of the server after which the watch is resumed; then a list follows."""
_NO_STREAMED_LISTS: Final = frozenset({400, 422})
"""Codes by which a server rejects `sendInitialEvents`; not 403, which a server returns just after its start."""
_LONGEST_LINE: Final = 8 * 1024 * 1024
_END_OF_LIST: Final = "k8s.io/initial-events-end"


class ResourceEventHandler(Protocol):
    """Receives the events of an informer (client-go's interface). Objects are JSON of the API server."""

    def on_update(self, raw: Raw) -> None:
        """Handle an object that is new or has changed; an exception means an invalid format."""

    def on_delete(self, raw: Raw) -> None:
        """Handle the deletion of an object; exceptions as for `on_update`."""

    def replace(self, uids: AbstractSet[str], version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Remove the objects that a list of `namespace` at `version` lacks, unless they were created since."""

    def on_bookmark(self, version: int, namespace: str = ALL_NAMESPACES) -> None:
        """Advance the watermark: everything of `namespace` up to `version` has been delivered."""


@dataclass(frozen=True, slots=True)
class WatchedResource:
    """A watched resource: the path of its collection, its plural, and the label selector."""

    path: str
    plural: str
    selector: str = ""
    namespace: str = ALL_NAMESPACES
    metadata_only: bool = False

    @classmethod
    def for_kind(
        cls, group_version: str, plural: str, namespace: str, selector: str = "", *, metadata_only: bool = False
    ) -> "WatchedResource":
        """Return the kind in one namespace, or in all when `namespace` is empty."""
        namespace_path = f"namespaces/{namespace}/" if namespace else ""
        return cls(f"/{group_version}/{namespace_path}{plural}", plural, selector, namespace, metadata_only)

    @property
    def accepts_list(self) -> str:
        """The content type of a list."""
        return METADATA_LIST if self.metadata_only else JSON

    @property
    def accepts_object(self) -> str:
        """The content type of an object in a watch event."""
        return METADATA if self.metadata_only else JSON

    def path_in(self, namespace: str) -> str:
        """Return the path of the kind's collection in one namespace."""
        return (
            self.path
            if self.namespace
            else self.path.removesuffix(self.plural) + f"namespaces/{namespace}/{self.plural}"
        )


class Informer:
    """Passes the events of one resource to a `ResourceEventHandler`."""

    def __init__(
        self,
        client: ApiClient,
        watched: WatchedResource,
        handler: ResourceEventHandler,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._watched = watched
        self._handler = handler
        self._version = ""
        self._listing: set[str] | None = None
        self._streams_lists = True
        self._sleep = sleep
        self._failures = 0
        self._turn: asyncio.Task[None] | None = None
        self._errors = 0
        """Number of consecutive error events of the server."""
        self.synced = asyncio.Event()
        self.last_contact = time.monotonic()
        WATCH_RESTARTS.labels(resource=self.plural)  # shown from 0 on

    @property
    def plural(self) -> str:
        """The plural of the resource."""
        return self._watched.plural

    @property
    def name(self) -> str:
        """The watched resource and its namespace, for messages."""
        return f"{self.plural} of {self._watched.namespace}" if self._watched.namespace else self.plural

    def reconnect(self) -> None:
        """Close the current connection; the watch resumes by a new one from its last resource version."""
        if self._turn is not None:
            self._turn.cancel()

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            self._turn = asyncio.create_task(self._list_and_watch())
            try:
                await self._turn
            except asyncio.CancelledError:
                task = asyncio.current_task()
                # `reconnect` cancels the turn; a cancellation of this task itself ends the informer.
                if not self._turn.cancelled() or (task is not None and task.cancelling()):
                    raise
                log.info("watch is connected again", extra={"resource": self.name})

    async def _list_and_watch(self) -> None:
        while True:
            try:
                if not self._version and not self._streams_lists:
                    await self._list_pages()
                await self._watch()
            # Replaced in case its connection is dead. On an idle cluster silence is not an error: an API server sends
            # no bookmarks for a kind that has not changed since its start, unless its etcd reports progress
            # (`--watch-progress-notify-interval`).
            except SilentWatchError as error:
                await self._on_silence(error)
            # The version to resume from has been compacted: only a list shows what has changed since.
            except GoneError as error:
                log.info("relist", extra={"resource": self.name, "error": str(error)})
                self._version = ""
                await self._back_off(error)
            except ApiError as error:
                self._give_up_streamed_lists(error)
                await self._back_off(error)
            except Exception as error:
                # No content that the server stores or sends may end an informer. What has been delivered is not certain
                # now: list again.
                log.exception("watch failed with an unexpected error", extra={"resource": self.name})
                self._version = ""
                await self._back_off(error)
            WATCH_RESTARTS.labels(resource=self.plural).inc()
            await self._sleep(_PAUSE_SECONDS)

    def _give_up_streamed_lists(self, error: ApiError) -> None:
        """List in pages from now on, if the server has rejected a streamed list."""
        requested = not self._version and self._streams_lists
        if requested and isinstance(error, RejectedError) and error.code in _NO_STREAMED_LISTS:
            log.info("the server does not stream lists", extra={"resource": self.name, "answer": str(error)})
            self._streams_lists = False

    async def _on_silence(self, error: SilentWatchError) -> None:
        """Resume a watch after a timeout, which may mean no change; a list that does not end is an error."""
        if self._listing is not None:
            await self._back_off(error)
        else:
            log.debug("watch is silent; it is resumed", extra={"resource": self.name})

    async def _back_off(self, error: Exception) -> None:
        self._failures += 1
        fields = {"resource": self.name, "error": str(error), "failures": self._failures}
        log.warning("watch interrupted; it is resumed", extra=fields)
        await self._sleep(RECONNECT.seconds(self._failures))

    async def _list_pages(self) -> None:
        uids: set[str] = set()
        query = {"labelSelector": self._watched.selector, "limit": _PAGE}
        while True:
            page = await self._client.request(
                "GET", self._watched.path, resource=self.plural, query=query, accept=self._watched.accepts_list
            )
            for item in list_items(page):
                self._dispatch(item)
                uids.add(item["metadata"]["uid"])
            query["continue"] = page["metadata"].get("continue", "")
            if not query["continue"]:
                break
        self._on_list(uids, page["metadata"]["resourceVersion"])

    def _on_list(self, uids: AbstractSet[str], version: str) -> None:
        # What the list lacks was deleted during an interruption, for which no event comes.
        self._handler.replace(uids, int(version), self._watched.namespace)
        self._handler.on_bookmark(int(version), self._watched.namespace)
        self._version = version
        self._failures = self._errors = 0
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
            # The server sends each object as an event, so that only one is in memory at a time, and the same connection
            # continues as the watch.
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        self._listing = None if self._version else set()
        path, accept = self._watched.path, self._watched.accepts_object
        async with self._client.stream(
            path, resource=self.plural, read_timeout_seconds=_SILENCE_SECONDS, query=query, accept=accept
        ) as lines:
            if self._listing is None:
                self.last_contact = time.monotonic()
            buffer = LineBuffer()
            async for chunk in lines.iter_any():
                for line in buffer.feed(chunk):
                    self._read(line)
                if buffer.pending > _LONGEST_LINE:
                    # A stream without line ends would fill the memory.
                    raise GoneError(0, "Malformed", "a watch event is longer than any object can be")

    def _read(self, line: bytes) -> None:
        """Handle one line of the watch; a line that is not an event is skipped."""
        self.last_contact = time.monotonic()
        try:
            event = decode(line)
            kind, item, meta = event["type"], event["object"], event["object"].get("metadata", {})
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            log.warning("line of a watch is not an event; skipped", extra={"resource": self.name, "error": repr(error)})
            return
        if kind == "ERROR":
            raise self._error(item)
        if kind != "BOOKMARK":
            self._dispatch(item, deleted=kind == "DELETED")
        self._advance(kind, meta)

    def _error(self, status: Mapping[str, Any]) -> ApiError:
        """Return the error of an error event; after repeated errors it is `GoneError`, which leads to a list."""
        self._errors += 1
        error = error_for(status.get("code", 410), status.get("reason", "Expired"), status.get("message", ""))
        # A list of everything is expensive: after an error event the watch is resumed a few times before one.
        return error if self._errors <= _RESUMED else GoneError(error.code, error.reason, error.message)

    def _advance(self, kind: str, meta: Mapping[str, Any]) -> None:
        """Record the resource version of an event, or the object of the list that the watch begins with."""
        if self._listing is None:
            self._version = meta["resourceVersion"]
            self._failures = self._errors = 0
            self._handler.on_bookmark(int(self._version), self._watched.namespace)
        # Before this bookmark the cache is incomplete: an object that has not come yet is not deleted.
        elif kind == "BOOKMARK" and _END_OF_LIST in (meta.get("annotations") or {}):
            uids, self._listing = self._listing, None
            self._on_list(uids, meta["resourceVersion"])
        elif kind != "BOOKMARK":
            self._listing.add(meta["uid"])

    def _dispatch(self, item: Mapping[str, Any], *, deleted: bool = False) -> None:
        """Pass an object to the handler; one with the controller's labels and another format is only logged."""
        try:
            (self._handler.on_delete if deleted else self._handler.on_update)(item)
        except Exception as error:
            meta = item.get("metadata", {})
            name = f"{meta.get('namespace')}/{meta.get('name')}"
            fields = {"resource": self.plural, "object": name, "error": repr(error)}
            log.warning("object has the controller's labels but not its format; ignored", extra=fields)
