"""The log of one pod, from its start to the end of its container, through cut connections."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tfdist.client.api_server import Json, Query
from tfdist.client.errors import Invalid, NoCluster, NotFound, NotInstalled, Unavailable
from tfdist.client.log_stream import LineSplitter, LogLine, RawLine, SeenLines
from tfdist.client.watch import FIRST_PAUSE, LONGEST_PAUSE, Patience
from tfdist.contract import MAIN_CONTAINER
from tfdist.render.names import ATTEMPT_LABEL, INDEX_LABEL, ROLE_LABEL

_REPEATS: Final = 3
"""How often the log of an ended container is read again while the kubelet sends less than before."""
_OWN_INIT: Final = "tfdist-"


class LogServer(Protocol):
    """The requests to an API server that a log needs; `ApiServer` sends them."""

    def request(self, method: str, path: str) -> Json:
        """Return the answer to a request."""

    def stream(self, path: str, query: Query | None = None) -> AbstractContextManager[Iterator[bytes]]:
        """Yield the parts of an answer as they arrive."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which lines are read."""

    replicas: frozenset[str] | None = None
    """Only these replicas, such as `worker-0`; default: all."""
    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    """Default: the latest attempt of each replica, and attempts that begin later."""
    since: float | None = None
    """Only lines of the last `since` seconds."""
    tail: int | None = None
    """Only the last `tail` lines of each log, and all lines that are written later."""

    def __post_init__(self) -> None:
        if self.tail is not None and self.tail < 1:
            raise ValueError(f"tail is {self.tail}; it must be at least 1")

    def selects(self, source: "LogSource") -> bool:
        """Return whether the log of a pod is read."""
        return (
            (self.replicas is None or source.name in self.replicas)
            and self.role in {None, source.role}
            and self.index in {None, source.index}
            and self.attempt in {None, source.attempt}
        )


@dataclass(frozen=True, slots=True)
class LogSource:
    """A container of a replica's pod whose log can be read."""

    pod: str
    namespace: str
    uid: str
    role: str
    index: int
    attempt: int
    container: str
    ended: bool
    """Whether the container has ended: its log does not grow."""

    @property
    def name(self) -> str:
        """Name of the replica, such as `worker-0`."""
        return f"{self.role}-{self.index}"

    @property
    def label(self) -> str:
        """Name that its lines have: the replica's name, or `worker-0/fetch`."""
        if self.container == MAIN_CONTAINER:
            return self.name
        return f"{self.name}/{self.container.removeprefix(_OWN_INIT)}"

    @property
    def path(self) -> str:
        """Path of the pod."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"


def log_source(pod: Json) -> LogSource | None:
    """Return the container of a pod whose log shows the activity of the replica; None if none has started.

    It is `tensorflow`, or the init container whose failure has prevented its start.
    """
    metadata, labels = pod["metadata"], pod["metadata"].get("labels", {})
    container = _container(pod.get("status") or {})
    if container is None or ROLE_LABEL not in labels:
        return None
    return LogSource(
        pod=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        role=labels[ROLE_LABEL],
        index=int(labels[INDEX_LABEL]),
        attempt=int(labels[ATTEMPT_LABEL]),
        container=container[0],
        ended=container[1],
    )


def _container(status: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Return the name of the container to read, and whether it has ended."""
    finished = status.get("phase") in {"Succeeded", "Failed"}
    for container_status in status.get("containerStatuses") or ():
        state = container_status.get("state") or {}
        has_ended = state.get("terminated") is not None
        if container_status["name"] == MAIN_CONTAINER and (has_ended or state.get("running") is not None):
            return MAIN_CONTAINER, finished or has_ended
    for container_status in status.get("initContainerStatuses") or ():
        terminated = (container_status.get("state") or {}).get("terminated")
        if terminated and terminated.get("exitCode"):
            return container_status["name"], True
    return None


class ContainerLog:
    """Reads the log of one container. Every line is returned once."""

    def __init__(
        self, api: LogServer, source: LogSource, options: LogOptions, stopped: threading.Event | None = None
    ) -> None:
        """Send no request yet; `stopped` ends the reading early."""
        self._api, self._source, self._options = api, source, options
        self._label = source.label
        self._stopped = stopped or threading.Event()
        self._seen = SeenLines(is_window=options.tail is not None or options.since is not None)
        self._opened, self._opened_at = time.monotonic(), time.time()
        self._has_opened = self._has_answered = False
        self._rest: RawLine | None = None
        self.is_away = False
        """Whether the log cannot be read at present, and is tried again."""

    def batches(self, *, follow: bool) -> Iterator[list[LogLine]]:
        """Yield the lines as they arrive, up to now or, with `follow`, to the end of the container.

        Raises:
            ClientError: a request failed, or the API server or the kubelet was away for five minutes.
        """
        ended, repeats = self._source.ended, 0
        patience, pause = Patience(), FIRST_PAUSE
        while not self._stopped.is_set():
            has_new, previous, error = False, self._rest, None
            self._has_answered = False
            try:
                for batch in self._stream(follow=follow and not ended):
                    has_new = True
                    yield batch
                has_new = has_new or self._rest != previous
                repeats = 0 if has_new else repeats + ended
                if not follow or self._is_complete(repeats):
                    yield from self._last_line()
                    return
                if not ended:
                    ended = self._has_ended()
            except (NotFound, NotInstalled):
                yield from self._last_line()
                return  # the pod is deleted
            except Invalid as rejected:
                yield [self.message(rejected)]
                return
            except (NoCluster, Unavailable) as away:
                error = away
            # A container that runs may write nothing for hours; each stream then ends with a timeout.
            if has_new or error is None or (self._has_answered and not ended):
                patience.renew()
            elif patience.is_over():
                raise error
            self.is_away = error is not None
            pause = FIRST_PAUSE if has_new else min(2 * pause, LONGEST_PAUSE)
            if error is not None or not ended:
                self._stopped.wait(pause)

    def message(self, reason: Exception) -> LogLine:
        """Return the line that stands for a log that cannot be read."""
        return self._line("", f"the log cannot be read: {reason}")

    def _is_complete(self, repeats: int) -> bool:
        """Return whether the log was read to its end; a cut is an end too for the client.

        It is if it has been read after the end of the container, and had nothing new and all that was there before.
        """
        return repeats >= _REPEATS or (repeats > 0 and not self._seen.outstanding)

    def _stream(self, *, follow: bool) -> Iterator[list[LogLine]]:
        """Yield the new lines of one stream, until it ends for any reason."""
        splitter = LineSplitter()
        self._seen.resume()
        with self._api.stream(f"{self._source.path}/log", self._query(follow=follow)) as parts:
            self._has_opened = self._has_answered = True
            self.is_away = False
            for part in parts:
                if self._stopped.is_set():
                    return
                if lines := [self._of(line) for line in splitter.feed(part) if self._seen.is_new(line)]:
                    yield lines
        # The line that a stream ends in is read again as a whole; the end of a log may have no line feed.
        self._rest = splitter.rest()

    def _last_line(self) -> Iterator[list[LogLine]]:
        if self._rest is not None and self._seen.is_new(self._rest):
            yield [self._of(self._rest)]

    def _query(self, *, follow: bool) -> Query:
        since, window = self._seen.since, None
        if since is None and self._options.since is not None:
            window = max(1, round(self._options.since + self._age()))
        # A log that was empty when it was opened has only later lines.
        tail = self._options.tail if since is None and not self._has_opened else None
        return {
            "container": self._source.container,
            "timestamps": True,
            "follow": follow,
            "sinceTime": since,
            "sinceSeconds": window,
            "tailLines": tail,
        }

    def _age(self) -> float:
        """Return the seconds since the reading began; not every clock counts while the computer sleeps."""
        return max(time.monotonic() - self._opened, time.time() - self._opened_at)

    def _has_ended(self) -> bool:
        """Return whether the container has ended.

        Raises:
            NotFound: the pod is deleted, or another one has its name.
        """
        pod = self._api.request("GET", self._source.path)
        if pod["metadata"]["uid"] != self._source.uid:
            raise NotFound(f"pod {self._source.pod} was deleted")
        current = log_source(pod)
        return current is not None and current.ended

    def _of(self, line: RawLine) -> LogLine:
        return self._line(line.time, line.text())

    def _line(self, moment: str, text: str) -> LogLine:
        return LogLine(self._label, self._source.attempt, self._source.pod, moment, text)
