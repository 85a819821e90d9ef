"""Waits until the names of all members resolve, and says for whom it waits.

A gang's pods get their addresses at different times. TensorFlow would wait too, and after minutes give up
with an error that names nobody.
"""

import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from tfdist_trainer.errors import PeerLostError

TIMEOUT_SECONDS: Final = 300.0
POLL_SECONDS: Final = 0.5
REPEAT_SECONDS: Final = 10.0


def wait_for_names(
    addresses: Sequence[str], say: Callable[[str], None], *, timeout_seconds: float = TIMEOUT_SECONDS
) -> None:
    """Return when the host of each of `addresses` (`host:port`) resolves.

    Raises:
        PeerLostError: after `timeout_seconds`, with the names that do not resolve.
    """
    started = time.monotonic()
    said = started - REPEAT_SECONDS + 1.0
    while missing := [address for address in addresses if not _resolves(address)]:
        waited = time.monotonic() - started
        if waited > timeout_seconds:
            raise PeerLostError(f"no address for {', '.join(missing)} after {waited:.0f} s: were the pods created?")
        if time.monotonic() - said > REPEAT_SECONDS:
            said = time.monotonic()
            say(f"waiting for the address of {', '.join(missing)}")
        time.sleep(POLL_SECONDS)


def _resolves(address: str) -> bool:
    try:
        socket.getaddrinfo(address.rpartition(":")[0].strip("[]"), None)
    except OSError:
        return False
    return True
