"""Reads the log of a container exactly once, although its stream may be cut anywhere and begins again within a second.

The kubelet resumes a log at a whole second (`sinceTime`), so the lines of that second arrive again, several of them
perhaps with the same time and text. They are counted, and as many are left out as have been read.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

LONGEST_LINE: Final = 2**16
"""Bytes. A longer line is read in several parts with the same time."""

_OVERLAP: Final = 1
"""Seconds before the last one that are read again: standard output and error are not in exact order of time."""
_SECOND: Final = 19
"""Length of `2030-01-02T03:04:05`, which the fraction follows."""
_UNTIMED: Final = -1
_CONTINUATION_BYTES: Final = range(0x80, 0xC0)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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


class RawLine(NamedTuple):
    """A line as the kubelet sends it."""

    second: int
    """Seconds since 1970, or -1 if the line has no time."""
    time: str
    content: bytes

    def text(self) -> str:
        """Return the content as text, without the carriage return of a line that ends with CR LF."""
        return self.content.rstrip(b"\r").decode("utf-8", errors="replace")


class LineSplitter:
    """Splits one stream with `timestamps=true` into lines."""

    def __init__(self) -> None:
        self._buffer = b""
        self._time = ""
        self._second = _UNTIMED
        self._is_within = False
        """Whether the buffer continues a line whose first part was returned."""
        self._known: tuple[str, int] = ("", _UNTIMED)

    def feed(self, data: bytes) -> list[RawLine]:
        """Return the lines that are complete with these bytes, and the full parts of a long one."""
        *complete, self._buffer = (self._buffer + data).split(b"\n")
        lines: list[RawLine] = []
        for line in complete:
            lines += self._parts(line)
            self._is_within = False
        if len(self._buffer) > LONGEST_LINE + _SECOND * 2:
            *full, last = self._parts(self._buffer)
            lines += full
            self._is_within, self._buffer = True, last.content
        return lines

    def rest(self) -> RawLine | None:
        """Return the line that the stream ended in, if any."""
        return next(self._parts(self._buffer), None) if self._buffer else None

    def _parts(self, line: bytes) -> Iterator[RawLine]:
        if not self._is_within:
            line = self._begin(line)
        while len(line) > LONGEST_LINE:
            end = _character_boundary(line, LONGEST_LINE)
            yield RawLine(self._second, self._time, line[:end])
            line = line[end:]
        yield RawLine(self._second, self._time, line)

    def _begin(self, line: bytes) -> bytes:
        """Take the time off a line and return the content."""
        stamp, space, content = line.partition(b" ")
        time = stamp.decode("ascii", errors="replace")
        # Most lines are in the second of the line before; the last characters may be an offset.
        zone = time[_SECOND + 10 :] if time[_SECOND : _SECOND + 1] == "." else time[_SECOND:]
        key = time[:_SECOND] + zone
        if key != self._known[0]:
            self._known = (key, _second(time))
        self._second = self._known[1]
        if self._second == _UNTIMED:
            self._time = ""
            return line
        self._time = time
        return content if space else b""


class SeenLines:
    """The lines of a log that have been read and that a resumed stream repeats."""

    def __init__(self, *, is_window: bool) -> None:
        """Begin with none; `is_window` if the first stream does not begin at the start of the log."""
        self._seconds: dict[int, Counter[int]] = {}
        self._messages: set[int] = set()
        self._is_window = is_window
        self._first: int | None = None
        self._last: int | None = None
        self._expected: dict[int, Counter[int]] = {}
        self._before_window = False

    @property
    def since(self) -> str | None:
        """`sinceTime` of the next stream; None if no line has been read."""
        if self._last is None:
            return None
        moment = _EPOCH + timedelta(seconds=self._last - _OVERLAP)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    @property
    def outstanding(self) -> bool:
        """Whether the current stream has not repeated all lines yet."""
        return any(counts.total() for counts in self._expected.values())

    def resume(self) -> None:
        """Expect that the next stream begins at `since`."""
        self._expected = {second: Counter(counts) for second, counts in self._seconds.items()}
        is_stored = self._first is not None and self._first in self._seconds
        self._before_window = self._is_window and is_stored

    def is_new(self, line: RawLine) -> bool:
        """Return whether a line has not been read before, and remember it."""
        key = hash((line.time, line.content))
        if line.second == _UNTIMED:
            is_new = key not in self._messages
            self._messages.add(key)
            return is_new
        expected = self._expected.get(line.second)
        if expected is not None and expected[key] > 0:
            expected[key] -= 1
            self._before_window = False
            return False
        if self._before_window and self._last is not None and line.second <= self._last:
            return False
        self._remember(line.second, key)
        return True

    def _remember(self, second: int, key: int) -> None:
        if self._first is None:
            self._first = second
        if self._last is None or second > self._last:
            self._last = second
            for old in [stored_second for stored_second in self._seconds if stored_second < second - _OVERLAP]:
                del self._seconds[old]
        if second >= self._last - _OVERLAP:
            if second not in self._seconds:
                self._seconds[second] = Counter()
            counts = self._seconds[second]
            counts[key] = counts.get(key, 0) + 1  # `+= 1` takes three times as long for a new key


def _second(time: str) -> int:
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return _UNTIMED
    return _UNTIMED if moment.tzinfo is None else int(moment.timestamp())


def _character_boundary(content: bytes, end: int) -> int:
    """Return the last position up to `end` that is not within a character of UTF-8."""
    for position in range(end, end - 4, -1):
        if content[position] not in _CONTINUATION_BYTES:
            return position
    return end
