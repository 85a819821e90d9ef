"""Exponential back-off of restarts: no delay before the first, then 10 s doubling up to 300 s, with jitter."""

import zlib
from typing import Final

FIRST_DELAY_SECONDS: Final = 10.0
MAX_DELAY_SECONDS: Final = 300.0
MAX_UNCOUNTED_RESTARTS: Final = 10
"""Uncounted restarts without a new checkpoint; further ones count against `backoffLimit`."""
_MAX_JITTER: Final = 0.2


def restart_delay_seconds(counted_restarts: int, jitter_key: str = "", *, first: float = FIRST_DELAY_SECONDS) -> float:
    """Return the delay before a restart, in seconds.

    Args:
        counted_restarts: counted restarts since the last checkpoint, this one included.
        jitter_key: names the job and its attempt. Jobs that failed at the same moment are spread by up to a fifth of
            the delay; equal keys give equal delays, so that every reconcile computes the same one.
        first: delay before the second restart.
    """
    if counted_restarts <= 1:
        return 0.0
    delay = min(first * 2.0 ** min(counted_restarts - 2, 16), MAX_DELAY_SECONDS)
    jitter = zlib.crc32(jitter_key.encode()) / 2**32 if jitter_key else 0.0
    return delay * (1 - _MAX_JITTER * jitter)
