"""Reads the log of a container exactly once, although its stream may be cut anywhere.

The kubelet resumes a log at a whole second (`sinceTime`), so the lines of that second arrive again, several of them
perhaps with the same time and text. They are counted, and as many are left out as have been read.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tfdist.client.api_server import ApiServer, Json, Query
from tfdist.client.errors import Invalid, NoCluster, NotFound, NotInstalled, Unavailable
from tfdist.client.watch import FIRST_PAUSE, LONGEST_PAUSE, Patience
from tfdist.contract import MAIN_CONTAINER
from tfdist.render.names import ATTEMPT_LABEL, INDEX_LABEL, ROLE_LABEL

LONGEST_LINE: Final = 2**16
"""Bytes. A longer line is read in several parts with the same time."""

_OVERLAP: Final = 1
"""Seconds before the last one that are read again: standard output and error are not in exact order of time."""
_SECOND: Final = 19
"""Length of `2030-01-02T03:04:05`, which the fraction follows."""
_UNTIMED: Final = -1
_CONTINUATION: Final = range(0x80, 0xC0)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_REPEATS: Final = 3
"""How often the log of an ended container is read again while the kubelet sends less than before."""
_OWN_INIT: Final = "tfdist-"


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a replica's log, or a part of one that is longer than 64 KiB."""

    replica: str
    """Such as `worker-0`; `worker-0/fetch` for an init container that has failed."""
    attempt: int
    pod: str
    time: str
    """When the line was written, RFC 3339 with nanoseconds; "" for a message of the kubelet."""
    text: str
    """Bytes that are not UTF-8 are replaced."""


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

    def selects(self, replica: str, attempt: int | None = None) -> bool:
        """Return whether the log of a replica is read; without `attempt`, whether that of any attempt is."""
        role, _, index = replica.rpartition("-")
        return (
            (self.replicas is None or replica in self.replicas)
            and self.role in {None, role}
            and (self.index is None or str(self.index) == index)
            and (attempt is None or self.attempt in {None, attempt})
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
    role, index, attempt = labels[ROLE_LABEL], int(labels[INDEX_LABEL]), int(labels[ATTEMPT_LABEL])
    return LogSource(metadata["name"], metadata["namespace"], metadata["uid"], role, index, attempt, *container)


def _container(status: Mapping[str, Any]) -> tuple[str, bool] | None:
    """Return the name of the container to read, and whether it has ended."""
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        has_ended = state.get("terminated") is not None
        if container["name"] == MAIN_CONTAINER and (has_ended or state.get("running") is not None):
            return MAIN_CONTAINER, has_ended or status.get("phase") in {"Succeeded", "Failed"}
    for container in status.get("initContainerStatuses") or ():
        if ((container.get("state") or {}).get("terminated") or {}).get("exitCode"):
            return container["name"], True
    return None


class ContainerLog:
    """Reads the log of one container. Every line is returned once."""

    def __init__(self, api: ApiServer, source: LogSource, options: LogOptions, stopped: threading.Event) -> None:
        """Send no request yet; `stopped` ends the reading early."""
        self.source = source
        self.is_away = False
        """Whether the log cannot be read at present, and is tried again."""
        self._api, self._options, self._stopped = api, options, stopped
        self._origin = (source.label, source.attempt, source.pod)
        self._seen = _SeenLines(is_window=options.tail is not None or options.since is not None)
        self._opened, self._opened_at = time.monotonic(), time.time()
        self._has_opened = self._has_answered = False
        self._rest: _RawLine | None = None

    def batches(self, *, follow: bool) -> Iterator[list[LogLine]]:
        """Yield the lines as they arrive, up to now or, with `follow`, to the end of the container.

        Raises:
            ClientError: a request failed, or the API server or the kubelet was away for five minutes.
        """
        ended, repeats = self.source.ended, 0
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
                # A cut looks like an end: a log is complete if, read again after the end of its container, it has
                # nothing new and all that was there before.
                is_over = not follow or repeats >= _REPEATS or (repeats > 0 and not self._seen.outstanding)
                ended = ended or (not is_over and self._has_ended())
            except (NotFound, NotInstalled):  # the pod is deleted
                is_over = True
            except Invalid as rejected:
                yield [self.message(rejected)]
                return
            except (NoCluster, Unavailable) as away:
                error, is_over = away, False
            if is_over:
                if self._rest is not None and self._seen.is_new(self._rest):
                    yield [self._line(self._rest)]
                return
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
        return self._line(_RawLine(_UNTIMED, "", f"the log cannot be read: {reason}".encode()))

    def _stream(self, *, follow: bool) -> Iterator[list[LogLine]]:
        """Yield the new lines of one stream, until it ends for any reason."""
        self._seen.resume()
        with self._api.stream(f"{self.source.path}/log", self._query(follow=follow)) as parts:
            self._has_opened = self._has_answered = True
            self.is_away, self._rest = False, None
            # The line that a stream ends in is read again as a whole; the end of a log may have no line feed.
            for lines, self._rest in split_lines(parts):
                if self._stopped.is_set():
                    return
                if new := [self._line(line) for line in lines if self._seen.is_new(line)]:
                    yield new

    def _query(self, *, follow: bool) -> Query:
        query: Json = {"container": self.source.container, "timestamps": True, "follow": follow}
        if self._seen.since is not None:
            return query | {"sinceTime": self._seen.since}
        if self._options.since is not None:
            # Not every clock counts while the computer sleeps.
            age = max(time.monotonic() - self._opened, time.time() - self._opened_at)
            query["sinceSeconds"] = max(1, round(self._options.since + age))
        # A log that was empty when it was opened has only later lines.
        return query if self._has_opened else query | {"tailLines": self._options.tail}

    def _has_ended(self) -> bool:
        pod = self._api.request("GET", self.source.path)
        if pod["metadata"]["uid"] != self.source.uid:
            raise NotFound(f"pod {self.source.pod} was deleted")
        current = log_source(pod)
        return current is not None and current.ended

    def _line(self, line: "_RawLine") -> LogLine:
        # A line may end with CR LF.
        return LogLine(*self._origin, line.time, line.content.rstrip(b"\r").decode("utf-8", errors="replace"))


class _RawLine(NamedTuple):
    """A line as the kubelet sends it."""

    second: int
    """Seconds since 1970, or -1 if the line has no time."""
    time: str
    content: bytes


class _SeenLines:
    """The lines of a log that have been read and that a resumed stream repeats."""

    def __init__(self, *, is_window: bool) -> None:
        """Begin with none; `is_window` if the first stream does not begin at the start of the log."""
        self._recent: deque[tuple[int, int]] = deque()
        """Second and hash of each line that the next stream repeats, in the order of their arrival."""
        self._expected: Counter[int] = Counter()
        self._messages: set[int] = set()
        self._is_window, self._is_before_window = is_window, False
        self._last = _UNTIMED

    @property
    def since(self) -> str | None:
        """`sinceTime` of the next stream; None if no line has been read."""
        moment = _EPOCH + timedelta(seconds=self._last - _OVERLAP)
        return None if self._last == _UNTIMED else moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def outstanding(self) -> bool:
        """Whether the current stream has not repeated all lines yet."""
        return self._expected.total() > 0

    def resume(self) -> None:
        """Expect that the next stream begins at `since`."""
        self._expected = Counter(key for _, key in self._recent)
        self._is_before_window = self._is_window and self._last != _UNTIMED

    def is_new(self, line: _RawLine) -> bool:
        """Return whether a line has not been read before, and remember it."""
        key = hash((line.time, line.content))
        if line.second == _UNTIMED:
            is_new = key not in self._messages
            self._messages.add(key)
            return is_new
        if self._expected.get(key):
            self._expected[key] -= 1
            self._is_before_window = False
            return False
        if self._is_before_window and line.second <= self._last:
            return False
        if line.second > self._last:
            self._last = line.second
            while self._recent and self._recent[0][0] < line.second - _OVERLAP:
                self._recent.popleft()
                self._is_window = False  # the next stream begins after the first line
        if line.second >= self._last - _OVERLAP:
            self._recent.append((line.second, key))
        return True


def split_lines(parts: Iterable[bytes]) -> Iterator[tuple[list[_RawLine], _RawLine | None]]:
    """Yield the lines that each part of a stream completes, with the full parts of a long one, and its end so far."""
    buffer, begun = b"", None
    for part in parts:
        *complete, buffer = (buffer + part).split(b"\n")
        lines: list[_RawLine] = []
        for line in complete:
            lines += _parts(line, begun)
            begun = None
        *full, rest = _parts(buffer, begun)
        if full:
            begun, buffer = rest, rest.content
        yield lines + full, rest if buffer else None


def _parts(line: bytes, begun: _RawLine | None) -> Iterator[_RawLine]:
    """Yield a line in parts of at most 64 KiB; of a line whose first part is `begun`, the others."""
    second, moment, content = (begun.second, begun.time, line) if begun else _stamped(line)
    while len(content) > LONGEST_LINE:
        # Not within a character of UTF-8.
        ends = (end for end in range(LONGEST_LINE, LONGEST_LINE - 4, -1) if content[end] not in _CONTINUATION)
        end = next(ends, LONGEST_LINE)
        yield _RawLine(second, moment, content[:end])
        content = content[end:]
    yield _RawLine(second, moment, content)


def _stamped(line: bytes) -> tuple[int, str, bytes]:
    """Return the second of a line, its time, and its content; of a message without a time -1, "" and the line."""
    stamp, _, content = line.partition(b" ")
    moment = stamp.decode("ascii", errors="replace")
    second = _second(moment[:_SECOND] + moment[_SECOND:].lstrip(".0123456789"))
    return (_UNTIMED, "", line) if second == _UNTIMED else (second, moment, content)


@lru_cache(maxsize=128)  # most lines are in the second of another one
def _second(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _UNTIMED
    return _UNTIMED if moment.tzinfo is None else int(moment.timestamp())
