"""Waits until the names of all members resolve, and says for whom it waits.

A gang's pods get their addresses at different times. TensorFlow would wait too, and after minutes give up
with an error that names nobody.
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


def wait_for_names(
    addresses: Sequence[str], say: Callable[[str], None], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when the host of each of `addresses` (`host:port`) resolves.

    Raises:
        PeerLostError: after `timeout_seconds`, with the names that do not resolve.
    """
    _wait(addresses, _resolves, "to have an address", say, timeout_seconds)


def wait_for_servers(
    addresses: Sequence[str], say: Callable[[str], None], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when somebody listens at each of `addresses` (`host:port`).

    Raises:
        PeerLostError: after `timeout_seconds`, with the addresses at which nobody does.
    """
    _wait(addresses, listens, "to listen", say, timeout_seconds)


def pauses() -> Iterator[float]:
    """Yield the seconds between one look and the next, without an end: short at first, and then up to half a second."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause
        pause = min(pause * PAUSE_GROWTH, LONGEST_PAUSE_SECONDS)


def listens(address: str) -> bool:
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
    is_there: Callable[[str], bool],
    what: str,
    say: Callable[[str], None],
    timeout_seconds: float,
) -> None:
    started = time.monotonic()
    said = started - REPEAT_SECONDS + 1.0
    pause = pauses()
    while missing := [address for address in addresses if not is_there(address)]:
        waited = time.monotonic() - started
        if waited > timeout_seconds:
            raise PeerLostError(f"waited {waited:.0f} s for {', '.join(missing)} {what}: were the pods created?")
        if time.monotonic() - said > REPEAT_SECONDS:
            said = time.monotonic()
            say(f"waiting for {', '.join(missing)} {what}")
        time.sleep(next(pause))
