"""`tfdist shell JOB [ROLE-INDEX] [-- COMMAND]`: a shell or a command in the container of a replica."""

import os
import sys
from collections.abc import Callable
from typing import Annotated

from tfdist.cli import terminal
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.find import attach
from tfdist.cli.options import JobName, replica_argument
from tfdist.client.exec import SHELL, Streams, run
from tfdist.client.replica_pods import running_pod


@command
def shell(
    connection: ClusterOptions,
    name: JobName,
    replica: Annotated[
        str | None, replica_argument("Such as worker-1; default: the replica that leads training.")
    ] = None,
    *,
    after_dashes: list[str],
) -> int:
    """Open a shell, or run the command after `--`, in the container of a replica.

    Without a terminal the command reads standard input and its output is copied, so it can be part of a pipe.

    Exits with the exit code of the command, or 2 if a request fails or the replica is not running.
    """
    client = connection.client()
    job = attach(client, name).job
    pod = running_pod(client.api, job, replica)
    output, errors = _writer(sys.stdout.fileno()), _writer(sys.stderr.fileno())
    sys.stdout.flush()
    if not terminal.is_interactive():
        return run(client.api, pod, after_dashes or SHELL, Streams(terminal.stdin(), output, errors))
    with terminal.raw():
        return run(client.api, pod, after_dashes or SHELL, Streams(terminal.stdin(), output, errors, terminal.size))


def _writer(descriptor: int) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]

    return write
