"""`tfdist logs --follow` with many lines: of a process that is stopped, and of 64 replicas. Every line is compared."""

import pathlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

import pytest
from support.api import Api
from support.log_cluster import JOB, Cluster, log_cluster
from support.polling import wait_for
from support.proxy import Proxy, proxy

pytestmark = pytest.mark.integration

REPLICAS: Final = 64
LINES: Final = 4000
"""Of each replica."""
THIRD: Final = LINES // 3
AT_ONCE: Final = 25
"""Lines with one time."""
PER_SECOND: Final = 500
"""Lines of a replica by the times in its log, so that a stream that is resumed repeats hundreds."""
LONG: Final = 2000
"""Characters of each line if the buffers of the system are to be full."""
MORE: Final = 2500
"""Lines that are added while the buffers are not full: their size depends on the system."""


@pytest.fixture
def cluster(api: Api, namespace: str, tmp_path: pathlib.Path) -> Iterator[Cluster]:
    with log_cluster(api, namespace, tmp_path) as made:
        yield made


@pytest.fixture
def connection(api: Api, cluster: Cluster) -> Iterator[Proxy]:
    """The connections of the user."""
    with proxy(api.host) as made:
        cluster.through(made.address)
        yield made


def text(pod: str, number: int, length: int = 0) -> str:
    return f"{pod} writes line {number}".ljust(length, ".")


def write(cluster: Cluster, pods: Iterable[str], numbers: range, length: int = 0) -> None:
    """Append lines with these numbers to the log of each pod."""
    for pod in pods:
        for first in range(numbers.start, numbers.stop, AT_ONCE):
            lines = [text(pod, number, length) for number in range(first, min(first + AT_ONCE, numbers.stop))]
            second, part = divmod(first, PER_SECOND)
            moment = f"2030-01-01T00:{second // 60:02}:{second % 60:02}.{part * 1_000_000_000 // PER_SECOND:09}Z"
            cluster.kubelet.log(pod).write(*lines, at=moment)


def shown(output: str) -> dict[str, list[str]]:
    """Return the lines of each replica in their order."""
    lines: dict[str, list[str]] = defaultdict(list)
    for line in output.splitlines():
        replica, _, rest = line.partition(" | ")
        lines[replica].append(rest)
    return lines


def assert_same_lines(found: list[str], expected: list[str]) -> None:
    """Compare every line; a difference is reported as the first few of it, as there may be thousands."""
    differences = [(i, pair) for i, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]]
    assert (differences[:3], len(found)) == ([], len(expected))


def running_pair(cluster: Cluster) -> list[str]:
    """Return the pods of a job with two running workers, each of which has written a line."""
    cluster.submit()
    pods = [cluster.start("worker-0"), cluster.start("worker-1")]
    cluster.report("Running", "all 2 replicas run")
    write(cluster, pods, range(1), LONG)
    return pods


def write_until_blocked(cluster: Cluster, pods: list[str]) -> int:
    """Write long lines until no stream can send any more, and return the number of lines of each pod."""
    logs, written = [cluster.kubelet.log(pod) for pod in pods], 1

    def all_blocked() -> bool:
        nonlocal written
        if all(log.sent == written or log.is_blocked for log in logs) and not all(log.is_blocked for log in logs):
            write(cluster, pods, range(written, written + MORE), LONG)
            written += MORE
        return all(log.is_blocked for log in logs)

    wait_for("the buffers to be full", all_blocked, context=lambda: f"{written} lines of each pod")
    return written


def assert_each_long_line_once(output: str, pods: list[str], lines: int) -> None:
    """Compare the lines of two workers that have written so many long ones each."""
    found = shown(output)
    assert sorted(found) == ["worker-0", "worker-1"]
    for replica, pod in zip(sorted(found), pods, strict=True):
        assert_same_lines(found[replica], [text(pod, number, LONG) for number in range(lines)])


@pytest.mark.long
def test_a_process_that_is_stopped_until_all_buffers_are_full_shows_each_line_once(cluster: Cluster) -> None:
    """Given a stopped process and more lines than buffers take; when it goes on, then each line is shown once."""
    pods = running_pair(cluster)

    with cluster.run("logs", JOB, "--follow") as command:
        for pod in pods:
            command.wait_for(text(pod, 0))
        with command.stopped():
            lines = write_until_blocked(cluster, pods)
        cluster.succeed(pods)
        assert command.wait() == 0

    assert_each_long_line_once(command.output, pods, lines)


@pytest.mark.long
def test_a_process_whose_connections_end_while_it_is_stopped_shows_each_line_once(
    cluster: Cluster, connection: Proxy
) -> None:
    """Given a stopped process whose connections are closed before the job ends; then it shows each line once."""
    pods = running_pair(cluster)

    with cluster.run("logs", JOB, "--follow") as command:
        for pod in pods:
            command.wait_for(text(pod, 0))
        with command.stopped():
            lines = write_until_blocked(cluster, pods)
            connection.close_connections()
            write(cluster, pods, range(lines, lines + MORE), LONG)
            cluster.succeed(pods)
        assert command.wait() == 0

    assert_each_long_line_once(command.output, pods, lines + MORE)
    assert all(cluster.kubelet.log(pod).streams > 1 for pod in pods)


@pytest.mark.long
def test_each_line_of_64_replicas_is_shown_once_in_its_order(cluster: Cluster, connection: Proxy) -> None:
    """Given 64 replicas that write at once, and streams that are cut; then each line has its prefix and comes once."""
    cluster.submit(workers=REPLICAS)
    pods = {f"worker-{index}": cluster.start(f"worker-{index}") for index in range(REPLICAS)}
    cluster.report("Running", f"all {REPLICAS} replicas run")
    for pod in list(pods.values())[::3]:
        cluster.kubelet.log(pod).cut_after(1000, 100_000, 0, 150_000)
    write(cluster, pods.values(), range(THIRD))

    with cluster.run("logs", JOB, "--follow", "--all") as command:
        command.wait_for(f"{text(pods['worker-63'], THIRD - 1)}\n")
        write(cluster, pods.values(), range(THIRD, 2 * THIRD))
        command.wait_for(f"{text(pods['worker-1'], 2 * THIRD - 1)}\n")
        connection.close_connections()
        write(cluster, pods.values(), range(2 * THIRD, LINES))
        cluster.succeed(pods.values())
        assert command.wait() == 0

    found = shown(command.output)
    assert {name.rstrip() for name in found} == set(pods)
    for replica, pod in pods.items():
        assert_same_lines(found[f"{replica:<9}"], [text(pod, number) for number in range(LINES)])
    assert all(cluster.kubelet.log(pod).streams > 4 for pod in list(pods.values())[::3])
