"""Follows one object of the API server through cut connections, restarts of the server, and a sleeping computer."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from tfdist.client.api_server import ApiServer, Json
from tfdist.client.errors import NoCluster, Unavailable

T = TypeVar("T")

_WATCH_SECONDS: Final = 300
PATIENCE_SECONDS: Final = 300.0
"""How long the API server may be away."""
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
_LONGEST_ATTEMPT: Final = 120.0 + LONGEST_PAUSE
"""Seconds that a request and the pause after it can take."""


class Patience:
    """How much longer the API server may be away.

    Of the time for which the process was stopped (Ctrl-Z), no more counts than a request can take: after it, the
    server is asked again, and not only once.
    """

    def __init__(self) -> None:
        """Begin now."""
        self.renew()

    def renew(self) -> None:
        """Begin again: the server has answered."""
        self._left, self._at = PATIENCE_SECONDS, time.monotonic()

    def is_over(self) -> bool:
        """Return whether the server has been away for too long; called after each failed request."""
        previous, self._at = self._at, time.monotonic()
        self._left -= min(self._at - previous, _LONGEST_ATTEMPT)
        return self._left <= 0


def watch_object(api: ApiServer, path: str, name: str, *, seconds: float | None = None) -> Iterator[Json]:
    """Yield an object, and again after each change.

    Args:
        api: the API server.
        path: path of the list that has the object.
        name: the object's name.
        seconds: stop after this long; default: never.

    Raises:
        NotFound: the object does not exist, or has been deleted.
        NoCluster: the API server did not answer at the first request, or for five minutes.
        ClientError: a request failed.
    """
    deadline = float("inf") if seconds is None else time.monotonic() + seconds

    def read() -> Json:
        return api.request("GET", f"{path}/{name}")

    stored = read()
    while True:
        yield stored
        for changed in _changes(api, path, name, stored, deadline):
            yield (stored := changed)
        if time.monotonic() >= deadline:
            return
        stored = patiently(read, deadline)


def _changes(api: ApiServer, path: str, name: str, stored: Json, deadline: float) -> Iterator[Json]:
    """Yield an object after each change since it was read, until the stream ends for any reason."""
    remaining = min(deadline - time.monotonic(), _WATCH_SECONDS)
    query: dict[str, Any] = {
        "watch": True,
        "fieldSelector": f"metadata.name={name}",
        "resourceVersion": stored["metadata"]["resourceVersion"],
        "allowWatchBookmarks": True,
        "timeoutSeconds": max(1, round(remaining)),
    }
    try:
        with api.stream(path, query) as parts:
            for event in notifications(parts):
                if event["type"] in {"ADDED", "MODIFIED"}:
                    yield event["object"]
                elif event["type"] != "BOOKMARK":
                    return  # deleted, or an expired resource version: reading the object again shows which
    except (NoCluster, Unavailable):
        return


def watch_list(api: ApiServer, path: str, selector: str) -> Iterator[Json]:
    """Yield the objects of a list that have certain labels, and each again after a change; never stop.

    Objects may be yielded again without a change; deleted ones are not reported.

    Raises:
        ClientError: a request failed. While the API server is away, it is asked again.
    """
    # Without a resource version the stream begins with all objects that there are.
    query = {"watch": True, "labelSelector": selector, "allowWatchBookmarks": True, "timeoutSeconds": _WATCH_SECONDS}
    while True:
        with contextlib.suppress(NoCluster, Unavailable), api.stream(path, query) as parts:
            for event in notifications(parts):
                if event["type"] in {"ADDED", "MODIFIED"}:
                    yield event["object"]
        time.sleep(FIRST_PAUSE)


def watch_collection(api: ApiServer, path: str, name: str | None = None) -> Iterator[list[Json]]:
    """Yield all objects of a list, and again after each change; never stop.

    Args:
        api: the API server.
        path: path of the list.
        name: only the object of this name; it need not exist.

    Raises:
        ClientError: the first request failed, or a later one while the API server answers.
    """
    selector = {"fieldSelector": f"metadata.name={name}"} if name else {}
    objects, version = _list(api, path, selector)
    while True:
        yield list(objects.values())
        query = {"watch": True, "resourceVersion": version, "timeoutSeconds": _WATCH_SECONDS, **selector}
        with contextlib.suppress(NoCluster, Unavailable), api.stream(path, query) as parts:
            for event in notifications(parts):
                if event["type"] == "ERROR":  # the version has expired
                    break
                _apply(objects, event)
                yield list(objects.values())
        time.sleep(FIRST_PAUSE)
        objects, version = patiently(lambda: _list(api, path, selector))


def _list(api: ApiServer, path: str, selector: Json) -> tuple[dict[str, Json], str]:
    """Return the objects of a list by UID, and the version of the list."""
    answer = api.request("GET", path, query=selector)
    return {item["metadata"]["uid"]: item for item in answer["items"]}, answer["metadata"]["resourceVersion"]


def _apply(objects: dict[str, Json], event: Json) -> None:
    """Change objects by UID as a notification of a watch reports."""
    uid = event["object"]["metadata"]["uid"]
    if event["type"] == "DELETED":
        objects.pop(uid, None)
    else:
        objects[uid] = event["object"]


def notifications(parts: Iterator[bytes]) -> Iterator[Json]:
    """Yield the notifications of a watch, `{type, object}`, from the parts of its stream."""
    buffer = b""
    for part in parts:
        *lines, buffer = (buffer + part).split(b"\n")
        yield from map(json.loads, lines)


def patiently(request: Callable[[], T], deadline: float = float("inf")) -> T:
    """Return the answer to a request, repeated with growing pauses while the API server is away.

    Raises:
        NoCluster, Unavailable: the API server does not answer for five minutes, or up to the deadline.
    """
    patience, pause = Patience(), FIRST_PAUSE
    while True:
        try:
            return request()
        except (NoCluster, Unavailable):
            if patience.is_over() or time.monotonic() + pause >= deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
