"""`tfdist port-forward JOB [ROLE-INDEX] [LOCAL:]PORT...`: ports of this machine that lead to a replica."""

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Annotated

import typer

from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import attach
from tfdist.cli.options import JobName
from tfdist.cli.output import message
from tfdist.client.port_forward import HOST, PortForward
from tfdist.client.replica_pods import is_replica, running_pod

_HIGHEST_PORT = 65535


@command
def port_forward(
    connection: ClusterOptions,
    name: JobName,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[ROLE-INDEX] [LOCAL:]PORT",
            help="A replica, such as worker-1, then ports.",
            autocompletion=completion.replicas,
        ),
    ],
) -> int:
    """Forward ports of this machine to a replica, until Ctrl-C.

    8790 is the same port on both sides, 9000:8790 uses port 9000 here, and :8790 a free port, which is printed. Without
    ROLE-INDEX they lead to the replica that leads training, also after it has been restarted.

    Exits 0 after Ctrl-C, or 2 if a request fails or a port is in use.
    """
    client = connection.client()
    replica, ports = parse(words)
    handle = attach(client, name)
    first = running_pod(client.api, handle.job, replica)
    with ExitStack() as stack:
        for local, port in ports:
            forward = PortForward(
                client.api, lambda: running_pod(client.api, handle.refresh(), replica), port, local, report=message
            )
            stack.enter_context(closing(forward))
            print(f"{HOST}:{forward.local_port} -> {first.replica}:{port}", flush=True)
        message(f"forwarding to {first.replica} of {name} until Ctrl-C")
        wait_for_interrupt()
    return CommandExitCode.OK


def wait_for_interrupt() -> None:
    """Return after Ctrl-C."""
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        if sys.stderr.isatty():
            message("")  # the terminal shows ^C


def parse(words: Sequence[str]) -> tuple[str | None, list[tuple[int, int]]]:
    """Return the replica, if one is named, and pairs of a local port and a port of the pod.

    Raises:
        CommandError: a word is not a port, or there is no port.
    """
    replica = words[0] if words and is_replica(words[0]) else None
    ports = list(map(_pair, words[1:] if replica else words))
    if not ports:
        raise CommandError("give a port of the replica, such as 8790, or 9000:8790 with the local port first")
    return replica, ports


def _pair(word: str) -> tuple[int, int]:
    """Return the ports of `8790` (the same, locally), `9000:8790`, or `0:8790` and `:8790` (a free one, locally)."""
    local, colon, port = word.rpartition(":")
    numbers = [_number(local or "0" if colon else port), _number(port)]
    if None in numbers or numbers[1] == 0:
        raise CommandError(f"{word}: neither a port (8790, 9000:8790, :8790) nor a replica (worker-0)")
    return numbers[0] or 0, numbers[1] or 0


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and int(text) <= _HIGHEST_PORT else None
