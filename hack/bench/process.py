"""A measured program as a process, with the figures of the kernel and of its own metrics."""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import requests

from tfdist_cluster import shell
from tfdist_cluster.errors import ClusterError

_TICK_MILLIS: Final = 1000 / os.sysconf("SC_CLK_TCK")
_STOP_SECONDS: Final = 20
_QUIET_WITHIN_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used since it began, or between two times."""

    requests: float
    cpu_millis: float

    def __sub__(self, earlier: "Usage") -> "Usage":
        return Usage(self.requests - earlier.requests, self.cpu_millis - earlier.cpu_millis)


@dataclass(frozen=True, slots=True)
class Process:
    """A running contestant. `counter` is the metric in which it counts its requests to the API server."""

    child: "subprocess.Popen[bytes]"
    address: str
    counter: str

    def usage(self) -> Usage:
        """Return its resource usage until now."""
        return Usage(self.metric(self.counter), cpu_millis(self.child.pid))

    def metric(self, name: str, labels: str = "") -> float:
        """Return the sum of a metric over all label sets that contain the text `labels`."""
        text = requests.get(f"{self.address}/metrics", timeout=30).text
        samples = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for sample_labels, value in samples if labels in sample_labels)

    def answers(self, path: str) -> bool:
        """Return whether it answers a probe with 200.

        Raises:
            ClusterError: it has ended.
        """
        if self.child.poll() is not None:
            raise ClusterError(f"{self.child.args!r} ended with {self.child.returncode}; see its log")
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.address}{path}", timeout=5).ok
        return False

    def memory_megabytes(self) -> float:
        """Return its resident memory."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        return int(match[1]) * 1024 / 1e6 if match else 0.0

    def wait_quiet(self, seconds: float = 3) -> None:
        """Wait until it has sent nothing for so long.

        Raises:
            ClusterError: it goes on and on.
        """
        last, since = -1.0, time.monotonic()
        end = since + _QUIET_WITHIN_SECONDS
        while time.monotonic() - since < seconds:
            if time.monotonic() > end:
                raise ClusterError(f"{self.child.args!r} has sent requests for {_QUIET_WITHIN_SECONDS} s without need")
            now = self.metric(self.counter)
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.25)


def cpu_millis(pid: int) -> float:
    """Return the processor time that a process has used, in ticks of usually 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_MILLIS  # utime and stime of proc(5)


@contextlib.contextmanager
def running(
    command: shell.Arguments, *, log: Path, environment: Mapping[str, str], address: str, counter: str
) -> Iterator[Process]:
    """Run a program until the block ends; the kernel ends it with this process."""
    arguments = [str(argument) for argument in shell.bound(command)]
    with log.open("wb") as output:
        child = subprocess.Popen(arguments, env=shell.environment(environment), stdout=output, stderr=output)
    try:
        yield Process(child, address, counter)
    finally:
        child.terminate()
        try:
            child.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
