"""`tfdist shell JOB [ROLE-INDEX] [-- COMMAND]`: a shell or a command in the container of a replica."""

import os
import sys
from collections.abc import Callable, Sequence

from tfdist.cli import terminal
from tfdist.cli.find import attach
from tfdist.client.client import Client
from tfdist.client.exec import SHELL, Streams, run
from tfdist.client.replica_pods import running_pod


def execute(client: Client, name: str, replica: str | None, command: Sequence[str]) -> int:
    """Run a command, by default a shell, and return its exit code."""
    job = attach(client, name).job
    pod = running_pod(client.api, job, replica)
    output, errors = _writer(sys.stdout.fileno()), _writer(sys.stderr.fileno())
    sys.stdout.flush()
    if not terminal.is_interactive():
        return run(client.api, pod, command or SHELL, Streams(terminal.stdin(), output, errors))
    with terminal.raw():
        return run(client.api, pod, command or SHELL, Streams(terminal.stdin(), output, errors, terminal.size))


def _writer(descriptor: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]

    return write
