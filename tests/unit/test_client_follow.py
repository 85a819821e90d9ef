"""Following the logs of a job: time that the reader takes, or for which the process is stopped, loses no line."""

import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import cast

import pytest
from support.factories import manifest
from support.polling import WAIT_SECONDS, wait_for

from tfdist.client.api_server import ApiServer, Json, Query
from tfdist.client.container_log import ContainerLog, LogOptions, LogSource
from tfdist.client.errors import NoCluster, NotFound
from tfdist.client.job import Job
from tfdist.client.logs import LogEvent, follow
from tfdist.client.watch import patiently

HOUR = 3600.0
LINES = 100


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the clock is ahead, one element for each time that the process was stopped."""
    stops: list[float] = []
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(stops))
    return stops


class FinishedJob:
    """A job that has succeeded with one worker, and its API server; the test lets each line of its log arrive."""

    def __init__(self) -> None:
        made = manifest("fashion")
        made["metadata"]["generation"] = 1
        self.job = Job(made | {"status": {"phase": "Succeeded", "observedGeneration": 1}})
        self.api = cast("ApiServer", self)
        self.arrives = threading.Semaphore(0)
        labels = {"role": "worker", "index": "0", "attempt": "0", "job-uid": self.job.uid}
        self._pod = {
            "metadata": {
                "name": "fashion-worker-0",
                "namespace": "team",
                "uid": "uid-1",
                "labels": {f"tfdist.dev/{key}": value for key, value in labels.items()},
            },
            "status": {"containerStatuses": [{"name": "tensorflow", "state": {"terminated": {"exitCode": 0}}}]},
        }

    def items(self, path: str, query: Query) -> list[Json]:
        assert path.endswith("/pods")
        assert query == {"labelSelector": "tfdist.dev/job=fashion"}
        return [self._pod]

    def watch(self, name: str, **_: float | None) -> Iterator[Job]:
        assert name == "fashion"
        yield self.job

    def request(self, method: str, path: str) -> Json:
        raise AssertionError(f"{method} {path}")

    @contextmanager
    def stream(self, path: str, query: Query | None = None) -> Iterator[Iterator[bytes]]:
        if query and query.get("watch"):
            threading.Event().wait()  # no pod changes
        assert path.endswith("/log")
        yield self._parts()

    def _parts(self) -> Iterator[bytes]:
        for number in range(LINES):
            self.arrives.acquire()
            yield f"2030-01-01T00:00:00.{number:09}Z {number}\n".encode()


def test_a_process_that_is_stopped_while_a_job_has_ended_reads_its_logs_to_the_end(stop: list[float]) -> None:
    """Given a job that has ended; when the process is stopped for an hour at each line, then it shows each line."""
    cluster, found = FinishedJob(), []

    cluster.arrives.release()
    for event in follow(cluster.api, cluster.watch, cluster.job, LogOptions()):
        if isinstance(event, list):
            found += [line.text for line in event]
            stop.append(HOUR)
            cluster.arrives.release(LINES if len(found) > 5 else 1)

    assert found == [str(number) for number in range(LINES)]


def test_an_api_server_that_is_away_is_asked_again_after_a_process_was_stopped(stop: list[float]) -> None:
    """Given a server that is away; when the process is stopped for an hour meanwhile, then it asks again."""
    answers = iter([False, False, True])

    def request() -> str:
        if not next(answers):
            stop.append(HOUR)
            raise NoCluster("connection refused")
        return "here"

    assert patiently(request) == "here"


def test_the_time_for_which_a_computer_slept_is_part_of_the_window_of_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given the last 10 s of a log without a line; after an hour's sleep, the next stream is for an hour and 10 s."""
    clock, windows = time.time, []

    class Empty:
        def request(self, method: str, path: str) -> Json:
            raise NotFound(f"{method} {path}")

        @contextmanager
        def stream(self, path: str, query: Query | None = None) -> Iterator[Iterator[bytes]]:
            assert path.endswith("/log")
            windows.append((query or {})["sinceSeconds"])
            if len(windows) > 1:
                raise NotFound("the pod is deleted")
            monkeypatch.setattr(time, "time", lambda: clock() + HOUR)  # no other clock need count the sleep
            raise NoCluster("the computer slept")

    source = LogSource("fashion-worker-0", "team", "uid-1", "worker", 0, 0, "tensorflow", ended=False)
    assert not [
        *ContainerLog(cast("ApiServer", Empty()), source, LogOptions(since=10), threading.Event()).batches(follow=True)
    ]

    assert windows[0] == 10
    assert windows[1] >= HOUR + 10


def test_the_end_of_a_log_follows_its_last_line() -> None:
    """Given a job that has ended with one worker, when it is followed, then the source of its log is the last event."""
    cluster = FinishedJob()
    cluster.arrives.release(10 * LINES)
    events = follow(cluster.api, cluster.watch, cluster.job, LogOptions())
    *_, last_lines, end = (event for event in events if not isinstance(event, Job))
    assert isinstance(last_lines, list)
    assert isinstance(end, LogSource)
    assert (end.name, end.attempt) == ("worker-0", 0)


class EndlessLog(FinishedJob):
    """A job whose log has no end; each part of it is a line of 64 KiB."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.is_closed = threading.Event()

    @contextmanager
    def stream(self, path: str, query: Query | None = None) -> Iterator[Iterator[bytes]]:
        with super().stream(path, query) as parts:
            yield parts
        self.is_closed.set()

    def _parts(self) -> Iterator[bytes]:
        while True:
            self.sent += 1
            yield b"2030-01-01T00:00:00Z " + b"x" * (2**16 - 1) + b"\n"


def test_a_log_is_read_ahead_of_its_reader_up_to_a_limit() -> None:
    """Given a log without an end, when its reader is slow, then it is at most 512 KiB behind; then it leaves."""
    cluster, taken = EndlessLog(), 0
    events = follow(cluster.api, cluster.watch, cluster.job, LogOptions())
    for event in events:
        taken += len(event) if isinstance(event, list) else 0
        wait_for("lines that wait for the reader", lambda: cluster.sent >= taken + 3)  # noqa: B023  called at once
        assert cluster.sent - taken <= 8
        if taken > 100:
            break

    cast("Generator[LogEvent, None, None]", events).close()

    assert cluster.is_closed.wait(WAIT_SECONDS)
