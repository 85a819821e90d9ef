"""A replica whose report port answers each request in another hostile way.

Arguments: the address of its victim, and in how many of the ways, from the first one, which is honest. It prints a line
for each request at its second server: there should be none.
"""

import itertools
import json
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator

JOB = json.loads(os.environ["TFDIST_JOB"])
VICTIM, HOW_MANY = sys.argv[1], int(sys.argv[2])
BASE = {"role": JOB["role"], "index": JOB["index"], "attempt": JOB["attempt"], "phase": "training", "step": 7}
REPORT_PORT, SECOND_PORT = 8790, 8081
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MEGABYTE = b"0" * (1 << 20)
numbers = itertools.count()


def body(content: bytes, *fields: str) -> bytes:
    """Return a whole answer."""
    return "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(content)}", *fields, "", ""]).encode() + content


def report(**fields: object) -> Iterator[bytes]:
    """Answer with a report; fields may be what JSON has no word for."""
    yield body(json.dumps(BASE | fields).encode())


def redirect(port: int, path: str, host: str = VICTIM) -> Iterator[bytes]:
    """Send the controller elsewhere."""
    yield f"HTTP/1.1 302 Found\r\nLocation: http://{host}:{port}{path}\r\nContent-Length: 0\r\n\r\n".encode()


def failures() -> Iterator[bytes]:
    """Make up 300 failures that were never reported before."""
    start, common = next(numbers) * 300, {"role": "worker", "index": 0, "message": "m" * 900, "rootCause": True}
    each = [common | {"id": f"a-{start + n}", "round": n, "reason": f"R{start + n}"} for n in range(300)]
    yield from report(gang={"members": [], "failures": each, "round": 3})


def large() -> Iterator[bytes]:
    """Send 100 MB."""
    yield f"HTTP/1.1 200 OK\r\nContent-Length: {100 << 20}\r\n\r\n".encode()
    yield from itertools.repeat(MEGABYTE, 100)


def endless() -> Iterator[bytes]:
    """Send chunks for ever."""
    yield CHUNKED
    yield from itertools.repeat(b"10000\r\n" + b" " * 65536 + b"\r\n")


def slow() -> Iterator[bytes]:
    """Send a byte now and then."""
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
    for _ in range(60):
        time.sleep(0.5)
        yield b" "


def bomb() -> Iterator[bytes]:
    """Send 1 GB of zeros, compressed to 1 MB."""
    packer = zlib.compressobj(wbits=31)
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n"
    for _ in range(1024):
        yield packer.compress(MEGABYTE)


WAYS: tuple[Callable[[], Iterator[bytes]], ...] = (
    lambda: report(totalSteps=10, metrics={"own": 1.0}),
    lambda: redirect(REPORT_PORT, "/v1/progress"),
    lambda: report(step=10**400, totalSteps=1),
    lambda: redirect(SECOND_PORT, "/v1/progress", "localhost"),
    lambda: report(step=-5, totalSteps=-7, examplesPerSecond=-3.5),
    large,
    lambda: report(stepTimeMillis=float("inf"), totalSteps=2**53 - 1, metrics={"loss": float("nan")}),
    endless,
    failures,
    slow,
    lambda: report(metrics={f"m{n}" + "x" * 60: n for n in range(3000)}),
    lambda: iter([body(b"[" * 100_000)]),
    bomb,
    lambda: iter([b"\x00\x01 this is not HTTP \r\n\r\n"]),
    failures,
)


def serve(port: int, answer: Callable[[socket.socket, object], None]) -> None:
    """Answer each connection in a thread of its own."""
    listening = socket.create_server(("", port))
    while True:
        connection, address = listening.accept()
        threading.Thread(target=answer, args=(connection, address), daemon=True).start()


def hostile(connection: socket.socket, _: object) -> None:
    """Answer one request in the next way; to one for stacks always send the controller to the victim's."""
    with connection:
        try:
            head = connection.recv(4096)
            parts = redirect(REPORT_PORT, "/v1/stacks") if b"/v1/stacks" in head else next(ways)()
            for part in parts:
                connection.sendall(part)
        except OSError:
            return


def second(connection: socket.socket, address: object) -> None:
    """Print that a request came."""
    with connection:
        print(f"REDIRECTED {address}", flush=True)
        connection.sendall(body(json.dumps(BASE | {"metrics": {"REDIRECTED": 1.0}}).encode()))


ways = itertools.cycle(WAYS[:HOW_MANY])  # of which any thread may take the next
threading.Thread(target=serve, args=(SECOND_PORT, second), daemon=True).start()
serve(REPORT_PORT, hostile)
