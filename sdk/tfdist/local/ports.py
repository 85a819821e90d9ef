"""Translates addresses of replicas to ports of this machine.

In a cluster each replica has its own host, and all use the same port numbers. Here each pair of a replica's host name
and a port is mapped to a free port of this machine at its first use, and every text that contains the pair is
rewritten: `TF_CONFIG`, `TFDIST_JOB` and the program's own arguments.
"""

import re
import socket
from collections.abc import Callable, Iterable
from typing import Final

from tfdist.api.v1 import TFDistJob

LOCAL_HOST: Final = "127.0.0.1"


class Addresses:
    """Map from host name and port of a replica to a port of this machine."""

    def __init__(self, job: TFDistJob, hosts: Iterable[str], take_port: Callable[[], int]) -> None:
        """Take the replicas' host names, such as `worker-0`; `take_port` returns another free port at each call."""
        self._ports: dict[tuple[str, int], int] = {}
        self._take = take_port
        name, namespace = re.escape(job.metadata.name), re.escape(job.metadata.namespace)
        replicas = "|".join(map(re.escape, hosts))
        self._pattern = re.compile(
            rf"(?<![\w.-])({replicas})\.{name}(?:\.{namespace}(?:\.svc)?)?(?![\w.-]|:\D)(?::(\d{{1,5}})(?!\d))?"
        )

    def port(self, host: str, number: int) -> int:
        """Return the port of this machine for port `number` of the replica `host`."""
        if (host, number) not in self._ports:
            self._ports[host, number] = self._take()
        return self._ports[host, number]

    def translate(self, text: str) -> str:
        """Return `text` with the cluster address of every replica replaced by its address on this machine."""
        return self._pattern.sub(self._local_address, text)

    def _local_address(self, match: re.Match[str]) -> str:
        host, number = match[1], match[2]
        return f"{LOCAL_HOST}:{self.port(host, int(number))}" if number else LOCAL_HOST


class FreePorts:
    """Allocates free ports of this machine and reserves them until `close`.

    Each port stays bound to a socket that never listens. Linux still lets a server with SO_REUSEADDR or SO_REUSEPORT,
    such as TensorFlow and Python, listen on it, but does not hand it out for a bind to port 0 (`socket(7)`).
    So no other process gets the port while TensorFlow starts, which takes seconds, or between restarts of a replica.
    """

    def __init__(self) -> None:
        self._held: list[socket.socket] = []

    def take(self) -> int:
        """Return a free port."""
        holder = socket.socket()
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("", 0))
        self._held.append(holder)
        return int(holder.getsockname()[1])

    def close(self) -> None:
        """Release the ports."""
        for holder in self._held:
            holder.close()
