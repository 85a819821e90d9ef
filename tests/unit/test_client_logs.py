"""Resuming the log of a container: every line once, wherever its streams are cut."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.log_kubelet import Log

from tfdist.client import watch
from tfdist.client.api_server import ApiServer, Json, Query
from tfdist.client.container_log import (
    LONGEST_LINE,
    ContainerLog,
    LogLine,
    LogOptions,
    LogSource,
    log_source,
    split_lines,
)
from tfdist.client.errors import Forbidden, Invalid, NoCluster, NotFound

SOURCE = LogSource("fashion-worker-0", "team", "uid-1", "worker", 0, 0, "tensorflow", ended=False)


class NoPause(threading.Event):
    """Does not wait between two streams."""

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002  the signature of an event
        return self.is_set()


class Cluster:
    """Serves the log of one container in streams that are cut after so many bytes, with or without an error.

    Before each stream more lines are written; the container ends after the last cut.
    """

    def __init__(self, cuts: list[tuple[int, bool]], written: list[list[tuple[str, bytes]]], size: int = 7) -> None:
        self.log, self._cuts, self._written, self._size = Log(), list(cuts), list(written), size
        self.queries: list[Json] = []
        self.unavailable: list[Exception] = []

    def request(self, method: str, path: str) -> Json:
        assert (method, path) == ("GET", SOURCE.path)
        return pod({"terminated": {"exitCode": 0}} if self.log.ended else {"running": {}})

    @contextmanager
    def stream(self, path: str, query: Query | None = None) -> Iterator[Iterator[bytes]]:
        assert path == f"{SOURCE.path}/log"
        if self.unavailable:
            raise self.unavailable.pop(0)
        if self._written:
            for at, text in self._written.pop(0):
                self.log.write(text, at=at)
        asked = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in query.items()
                 if value is not None} if query else {}  # fmt: skip
        self.queries.append(asked)
        # the API server keeps the second of a time and no more
        asked["sinceTime"] = asked["sinceTime"][:19] if "sinceTime" in asked else ""
        yield self._parts(self.log.content(self.log.first(asked), asked)[0])

    def _parts(self, content: bytes) -> Iterator[bytes]:
        end, fails = self._cuts.pop(0) if self._cuts else (len(content), False)
        for start in range(0, min(end, len(content)), self._size):
            yield content[start : min(start + self._size, end)]
        self.log.ended = self.log.ended or (not self._cuts and not self._written)
        if fails:
            raise NoCluster("cut")


def pod(state: Json, **status: Any) -> Json:
    labels = {"tfdist.dev/role": "worker", "tfdist.dev/index": "0", "tfdist.dev/attempt": "0"}
    metadata = {"name": "fashion-worker-0", "namespace": "team", "uid": "uid-1", "labels": labels}
    containers = [{"name": "sidecar", "state": {"running": {}}}, {"name": "tensorflow", "state": state}]
    return {"metadata": metadata, "status": {"phase": "Running", "containerStatuses": containers} | status}


def read(cluster: Cluster, **options: Any) -> list[LogLine]:
    log = ContainerLog(cast("ApiServer", cluster), SOURCE, LogOptions(**options), NoPause())
    return [line for batch in log.batches(follow=True) for line in batch]


def texts(cluster: Cluster, **options: Any) -> list[str]:
    return [line.text for line in read(cluster, **options)]


def at(tenths: int) -> str:
    """Return a time within some seconds; many lines share one."""
    return f"2030-01-01T00:00:{tenths // 10:02}.{tenths % 10}00000000Z"


# Few times and texts, so that lines with the same ones are frequent; a line may be empty.
TIMES = st.lists(st.integers(0, 8), max_size=12).map(lambda steps: [at(sum(steps[: i + 1])) for i in range(len(steps))])
TEXTS = st.sampled_from([b"", b"a", b"step 1", b"\xff\xfe", b"\xe2\x82\xac"])


@st.composite
def written_lines(draw: st.DrawFn) -> list[list[tuple[str, bytes]]]:
    """Return lines in order of time, in groups of those that are written before a stream."""
    lines = [(time, draw(TEXTS)) for time in draw(TIMES)]
    bounds = sorted(draw(st.lists(st.integers(0, len(lines)), max_size=3)))
    return [lines[a:b] for a, b in zip([0, *bounds], [*bounds, len(lines)], strict=True)]


CUTS = st.lists(st.tuples(st.integers(0, 300), st.booleans()), max_size=6)


@settings(max_examples=400, deadline=None)
@given(written=written_lines(), cuts=CUTS, size=st.integers(1, 100))
@example(written=[[(at(0), b"a")] * 3], cuts=[(35, True), (70, False)], size=1)
def test_every_line_of_a_log_that_is_cut_anywhere_is_read_once(
    written: list[list[tuple[str, bytes]]], cuts: list[tuple[int, bool]], size: int
) -> None:
    expected = [(time, text.decode(errors="replace")) for group in written for time, text in group]

    lines = read(Cluster(cuts, written, size))

    assert [(line.time, line.text) for line in lines] == expected


@settings(max_examples=200, deadline=None)
@given(written=written_lines(), cuts=CUTS, tail=st.integers(1, 5))
def test_a_log_from_its_last_lines_on_has_no_earlier_line_after_a_cut(
    written: list[list[tuple[str, bytes]]], cuts: list[tuple[int, bool]], tail: int
) -> None:
    """Given lines with different texts; when the last ones are followed through cuts, then they come once."""
    numbers = iter(range(100))
    numbered = [[(time, b"line %d" % next(numbers)) for time, _ in group] for group in written]
    before = len(numbered[0])

    found = texts(Cluster(cuts, numbered), tail=tail)

    assert found == [f"line {i}" for i in range(len(found) and int(found[0].split()[1]), sum(map(len, numbered)))]
    if not cuts:
        assert len(found) == min(tail, before) + sum(map(len, numbered[1:]))


def test_lines_with_the_same_time_and_text_are_read_as_often_as_they_were_written() -> None:
    """Given five equal lines; when the stream is cut after the second, then five are read."""
    line = len(f"{at(0)} same\n")

    assert texts(Cluster([(2 * line, True)], [[(at(0), b"same")] * 5])) == ["same"] * 5


def test_a_line_of_standard_error_that_is_written_late_is_read_after_a_cut() -> None:
    """Given a line with a time before that of the line above; when the stream is cut between, then both are read."""
    cluster = Cluster([(len(f"{at(10)} out\n"), True)], [[(at(10), b"out"), (at(9), b"err")]])

    assert texts(cluster) == ["out", "err"]


def test_a_log_that_was_rotated_during_a_cut_continues_with_the_lines_that_are_left() -> None:
    class Rotating(Cluster):
        def request(self, method: str, path: str) -> Json:
            self.log._lines = [(at(4), b"new"), (at(5), b"newer")]
            return super().request(method, path)

    cluster = Rotating([(1000, False), (1000, False)], [[(at(3), b"old")]])

    assert texts(cluster) == ["old", "new", "newer"]


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, 3 * LONGEST_LINE), extra=st.integers(-2, 2))
def test_a_long_line_is_read_in_parts_without_a_broken_character(cut: int, extra: int) -> None:
    """Given a line of several times 64 KiB with characters of three bytes, cut anywhere; then its parts join to it."""
    text = "x" * (LONGEST_LINE + extra) + "€" * (LONGEST_LINE // 2)

    lines = read(Cluster([(cut, True)], [[(at(0), text.encode()), (at(1), b"next")]], size=2**15))

    assert "".join(line.text for line in lines[:-1]) == text
    assert lines[-1].text == "next"
    assert {len(line.text.encode()) > LONGEST_LINE for line in lines} == {False}
    assert {line.time for line in lines[:-1]} == {at(0)}


def test_a_line_without_line_feed_at_the_end_of_a_log_is_read() -> None:
    class Unfinished(Cluster):
        def _parts(self, content: bytes) -> Iterator[bytes]:
            return super()._parts(content.removesuffix(b"\n"))

    assert texts(Unfinished([(40, False)], [[(at(0), b"first"), (at(1), b"no line feed")]])) == [
        "first",
        "no line feed",
    ]


def test_the_end_of_a_log_that_is_cut_as_if_it_had_ended_is_read() -> None:
    """Given a container that has ended, and streams that end early without an error; then the log is read again."""
    one = len(f"{at(0)} line 1\n")
    cluster = Cluster([(one, False), (0, False)], [[(at(i), b"line %d" % (i + 1)) for i in range(3)]])
    cluster.log.end()

    assert texts(cluster) == ["line 1", "line 2", "line 3"]


def test_a_last_line_that_is_cut_again_and_again_is_read_as_a_whole() -> None:
    one, two = len(f"{at(0)} a\n"), len(f"{at(1)} ")
    cluster = Cluster([(one + two + 7, False), (one + two + 5, False)], [[(at(0), b"a"), (at(1), b"a long line")]])
    cluster.log.end()

    assert texts(cluster) == ["a", "a long line"]


@pytest.mark.parametrize("written", [[[(at(i), b"a")] for i in range(3)], [[], [], [(at(0), b"a")] * 3]])
def test_the_patience_begins_again_with_each_answer_even_if_it_has_no_line(
    written: list[list[tuple[str, bytes]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PATIENCE_SECONDS", 0.0)

    assert texts(Cluster([(1000, True)] * 3, written)) == ["a", "a", "a"]


def test_a_message_of_the_kubelet_is_read_once() -> None:
    """Given streams that begin with an error of the kubelet, without a time; then it is read once."""

    class Failing(Cluster):
        def _parts(self, content: bytes) -> Iterator[bytes]:
            yield from super()._parts(b"failed to watch the log\n" + content)

    lines = read(Failing([(1000, True), (1000, False)], [[(at(0), b"a")]]))

    assert [(line.time, line.text) for line in lines] == [("", "failed to watch the log"), (at(0), "a")]


def test_a_stream_resumes_a_second_before_the_last_line_and_names_the_container() -> None:
    cluster = Cluster([(1000, True)], [[(at(75), b"a")]])
    read(cluster)

    first, second, *_ = cluster.queries
    assert first == {"container": "tensorflow", "timestamps": "true", "follow": "true", "sinceTime": ""}
    assert second["sinceTime"] == "2030-01-01T00:00:06"


def test_times_with_an_offset_are_those_of_the_same_second_in_utc() -> None:
    cluster = Cluster([], [[]])
    (((line,), _),) = split_lines([b"2030-01-01T02:00:07.500000000+02:00 a\n"])
    (((same,), _),) = split_lines([b"2030-01-01T00:00:07.250000000Z b\n"])

    assert line.second == same.second
    assert not texts(cluster)


def test_a_log_that_cannot_be_read_for_five_minutes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PATIENCE_SECONDS", 0.0)
    cluster = Cluster([], [[]])
    cluster.unavailable = [NoCluster("connection refused")] * 2

    with pytest.raises(NoCluster, match="connection refused"):
        read(cluster)


def test_an_api_server_that_is_away_for_a_while_is_asked_again() -> None:
    cluster = Cluster([], [[(at(0), b"a")]])
    cluster.unavailable = [NoCluster("connection refused")] * 5

    assert texts(cluster) == ["a"]


def test_a_pod_that_is_deleted_ends_its_log() -> None:
    cluster = Cluster([(1000, False)], [[(at(0), b"a")]])
    cluster.unavailable = [NotFound("gone")]

    assert texts(cluster) == []


def test_a_missing_right_ends_the_reading() -> None:
    cluster = Cluster([], [[]])
    cluster.unavailable = [Forbidden("cannot get pods/log")]

    with pytest.raises(Forbidden, match="cannot get pods/log"):
        read(cluster)


def test_a_log_that_the_kubelet_does_not_have_is_one_line() -> None:
    cluster = Cluster([], [[]])
    cluster.unavailable = [Invalid("container is not available")]

    assert texts(cluster) == ["the log cannot be read: container is not available"]


def test_the_log_of_a_pod_is_that_of_the_main_container() -> None:
    found = log_source(pod({"running": {}}))

    assert found is not None
    assert (found.label, found.container, found.ended) == ("worker-0", "tensorflow", False)
    assert log_source(pod({"waiting": {"reason": "ContainerCreating"}})) is None


def test_an_init_container_that_failed_is_read_instead() -> None:
    failed = [{"name": "tfdist-fetch", "state": {"terminated": {"exitCode": 1}}}]

    found = log_source(pod({"waiting": {}}, phase="Failed", initContainerStatuses=failed))

    assert found is not None
    assert (found.label, found.container, found.ended) == ("worker-0/fetch", "tfdist-fetch", True)


def test_a_tail_of_no_lines_is_rejected() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        LogOptions(tail=0)
