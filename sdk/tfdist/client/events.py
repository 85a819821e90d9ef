"""Events of a job and its pods, as the API server keeps them for an hour by default."""

import itertools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tfdist.api.resource import KIND
from tfdist.client.api_server import ApiServer, Json
from tfdist.client.errors import NoCluster, Unavailable
from tfdist.client.job import Job
from tfdist.client.watch import notifications, patiently
from tfdist.contract import Role
from tfdist.printable import printable
from tfdist.timestamps import parse_time

_WATCH_SECONDS: Final = 60
_PAUSE: Final = 1.0
_LIST_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event, as `kubectl describe` shows it."""

    type: str
    """`Normal` or `Warning`."""
    reason: str
    message: str
    object: str
    """What it is about: `job`, or `pod/NAME`."""
    source: str
    """Component that reported it."""
    first: datetime
    """When it was first observed."""
    last: datetime
    """When it was last observed."""
    count: int
    """How often it was observed."""
    uid: str
    version: str
    """`metadata.resourceVersion`: another one of the same event is a repetition."""


def read(api: ApiServer, job: Job) -> list[JobEvent]:
    """Return the events of a job and its pods, newest last.

    Raises:
        ClientError: a request failed.
    """
    return _snapshot(api, job)[0]


def follow(api: ApiServer, job: Job, exists: Callable[[], bool]) -> Iterator[JobEvent]:
    """Yield the events of a job and its pods, then each new or repeated one.

    Args:
        api: the API server.
        job: the job as it was read.
        exists: returns whether the job still exists, or raises NotFound if no job has its name; called once a
            minute.

    Raises:
        NotFound: the job has been deleted.
        ClientError: a request failed.
    """
    reported: set[tuple[str, str]] = set()
    while True:
        snapshot, version = patiently(lambda: _snapshot(api, job), float("inf"))
        for event in itertools.chain(snapshot, _changes(api, job, version)):
            if (event.uid, event.version) not in reported:
                reported.add((event.uid, event.version))
                yield event
        if not patiently(exists, float("inf")):
            return
        time.sleep(_PAUSE)  # a server that ends each stream at once is not overloaded


def _snapshot(api: ApiServer, job: Job) -> tuple[list[JobEvent], str]:
    """Return the events by the time of their last observation, and the version of the list."""
    events: list[JobEvent] = []
    continuation: str | None = None
    while True:
        page = api.request("GET", _path(job), query={"limit": _LIST_PAGE, "continue": continuation})
        events += (event for item in page["items"] if (event := _event_of(item, job)))
        continuation = page["metadata"].get("continue")
        if not continuation:
            return sorted(events, key=lambda event: event.last), page["metadata"]["resourceVersion"]


def _changes(api: ApiServer, job: Job, version: str) -> Iterator[JobEvent]:
    """Yield the events since a version of the list, until the stream ends for any reason."""
    query = {"watch": True, "resourceVersion": version, "timeoutSeconds": _WATCH_SECONDS, "allowWatchBookmarks": True}
    try:
        with api.stream(_path(job), query) as parts:
            for notification in notifications(parts):
                if notification["type"] == "ERROR":
                    return  # the version has expired
                if notification["type"] in {"ADDED", "MODIFIED"} and (event := _event_of(notification["object"], job)):
                    yield event
    except (NoCluster, Unavailable):
        return


def _path(job: Job) -> str:
    return f"/api/v1/namespaces/{job.namespace}/events"


def _event_of(stored: Json, job: Job) -> JobEvent | None:
    """Return the event if it is about the job or one of its pods, and not about an earlier job of its name."""
    about = stored.get("involvedObject") or {}
    kind, name = about.get("kind"), str(about.get("name"))
    last = _last(stored)
    if kind == KIND and name == job.name and about.get("uid") in {job.uid, None, ""}:
        subject = "job"
    elif kind == "Pod" and _pod_names(job.name).fullmatch(name) and last >= parse_time(job.created):
        subject = f"pod/{name}"
    else:
        return None
    return JobEvent(
        type=str(stored.get("type") or "Normal"),
        reason=printable(str(stored.get("reason") or "")),
        message=printable(" ".join(str(stored.get("message") or "").split())),
        object=subject,
        source=str(stored.get("reportingComponent") or (stored.get("source") or {}).get("component") or ""),
        first=_first(stored, last),
        last=last,
        count=int((stored.get("series") or {}).get("count") or stored.get("count") or 1),
        uid=stored["metadata"]["uid"],
        version=stored["metadata"]["resourceVersion"],
    )


def _pod_names(job: str) -> re.Pattern[str]:
    """Return the pattern of the names that `render.names.pod_name` gives, and of the names of a TensorBoard's pods."""
    roles = "|".join(re.escape(role) for role in Role)
    return re.compile(rf"{re.escape(job)}-(?:(?:{roles})-\d+(?:-r\d+)?|tensorboard-[a-z0-9]+-[a-z0-9]{{5}})")


def _last(stored: Json) -> datetime:
    """Return the time of the last observation; of two times within a second the more precise one."""
    times = ((stored.get("series") or {}).get("lastObservedTime"), stored.get("lastTimestamp"), stored.get("eventTime"))
    return max(map(parse_time, filter(None, times)), default=parse_time(stored["metadata"]["creationTimestamp"]))


def _first(stored: Json, last: datetime) -> datetime:
    first_time = stored.get("firstTimestamp") or stored.get("eventTime")
    return parse_time(first_time) if first_time else last
