"""Addresses of pods, and where they are on this machine.

On a cluster each replica has a host of its own, and all use the same port numbers. Here each pair of a replica's host
name and a port gets a free port of this machine when it is first spoken of, and every text that names the pair is
rewritten: `TF_CONFIG`, `TFDIST_JOB`, and a program's own arguments alike.
"""

import re
import socket
from collections.abc import Callable, Iterable
from typing import Final

from tfdist.api.v1 import TFDistJob

LOCAL_HOST: Final = "127.0.0.1"


class Addresses:
    """Which port of this machine stands for which port of which replica."""

    def __init__(self, job: TFDistJob, hosts: Iterable[str], take_port: Callable[[], int]) -> None:
        """Know the replicas `hosts`, such as `worker-0`; `take_port` returns a free port, each time another."""
        self._ports: dict[tuple[str, int], int] = {}
        self._take = take_port
        name, namespace = re.escape(job.metadata.name), re.escape(job.metadata.namespace)
        replicas = "|".join(map(re.escape, hosts))
        self._pattern = re.compile(
            rf"(?<![\w.-])({replicas})\.{name}(?:\.{namespace}(?:\.svc)?)?(?![\w.-]|:\D)(?::(\d{{1,5}})(?!\d))?"
        )

    def port(self, host: str, number: int) -> int:
        """Return the port of this machine that stands for port `number` of a replica."""
        if (host, number) not in self._ports:
            self._ports[host, number] = self._take()
        return self._ports[host, number]

    def rewritten(self, text: str) -> str:
        """Return `text` with the address of every replica, as the others know it, in its form on this machine."""
        return self._pattern.sub(self._here, text)

    def _here(self, found: re.Match[str]) -> str:
        host, number = found[1], found[2]
        return f"{LOCAL_HOST}:{self.port(host, int(number))}" if number else LOCAL_HOST


class FreePorts:
    """Takes free ports of this machine and keeps everybody else off them until `close`.

    Each stays bound to a socket that never listens. Linux lets a server that sets SO_REUSEADDR or SO_REUSEPORT, as
    TensorFlow's and Python's do, listen there all the same, and gives the port to nobody who asks for any
    (`socket(7)`): so nobody can take it in the seconds that TensorFlow needs to start, nor between two lives of a
    replica.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Return a port that is free."""
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("", 0))
        self._held.append(holder)
        return int(holder.getsockname()[1])

    def close(self) -> None:
        """Give the ports back."""
        for holder in self._held:
            holder.close()
