"""Waits until the addresses of all members resolve or accept connections, and reports the missing ones.

The pods of a gang get their addresses at different times. TensorFlow would wait too, and fail after minutes with an
error that does not name the missing member.
"""

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tfdist_trainer.errors import PeerLostError

TIMEOUT_SECONDS: Final = 300.0
FIRST_PAUSE_SECONDS: Final = 0.02
PAUSE_GROWTH: Final = 1.5
LONGEST_PAUSE_SECONDS: Final = 0.5
REPEAT_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 2.0


def wait_until_resolved(
    addresses: Sequence[str], report: Callable[[str], None], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when the host of each of `addresses` (`host:port`) resolves.

    Raises:
        PeerLostError: after `timeout_seconds`, with the names that do not resolve.
    """
    _wait(addresses, _resolves, "to have an address", report, timeout_seconds)


def wait_until_listening(
    addresses: Sequence[str], report: Callable[[str], None], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when a server listens at each of `addresses` (`host:port`).

    Raises:
        PeerLostError: after `timeout_seconds`, with the addresses at which none does.
    """
    _wait(addresses, is_listening, "to listen", report, timeout_seconds)


def retry_delays() -> Iterator[float]:
    """Yield the seconds to wait between attempts, without an end: exponential back-off from 20 ms to half a second."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS)


def is_listening(address: str) -> bool:
    """Return whether a connection to `address` (`host:port`) can be made."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS):
            return True
    except OSError:
        return False


def _resolves(address: str) -> bool:
    try:
        socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None)
    except OSError:
        return False
    return True


def _wait(
    addresses: Sequence[str],
    is_ready: Callable[[str], bool],
    goal: str,
    report: Callable[[str], None],
    timeout_seconds: float,
) -> None:
    started_at = time.monotonic()
    reported_at = started_at - REPEAT_SECONDS + 1.0
    pause = retry_delays()
    while missing := [address for address in addresses if not is_ready(address)]:
        elapsed = time.monotonic() - started_at
        if elapsed > timeout_seconds:
            raise PeerLostError(f"waited {elapsed:.0f} s for {', '.join(missing)} {goal}: were the pods created?")
        if time.monotonic() - reported_at > REPEAT_SECONDS:
            reported_at = time.monotonic()
            report(f"waiting for {', '.join(missing)} {goal}")
        time.sleep(next(pause))
