"""How long to wait before a restart: none for the first, then 10 s doubling up to 300 s, each a little different."""

import zlib
from typing import Final

FIRST_DELAY_SECONDS: Final = 10.0
LONGEST_DELAY_SECONDS: Final = 300.0
FREE_RESTARTS: Final = 10
"""Restarts without a new checkpoint that the cluster may cause before they count."""
_SPREAD: Final = 0.2


def restart_delay_seconds(counted_restarts: int, who: str = "", *, first: float = FIRST_DELAY_SECONDS) -> float:
    """Return the delay before the restart that makes `counted_restarts` of them since the last checkpoint.

    `first` is the first delay that is not none, in seconds. `who` names the job and its attempt; it spreads the
    restarts of jobs that failed in the same moment by up to a fifth, and equal names give equal delays, so that every
    look says the same.
    """
    if counted_restarts <= 1:
        return 0.0
    delay = min(first * 2.0 ** min(counted_restarts - 2, 16), LONGEST_DELAY_SECONDS)
    spread = zlib.crc32(who.encode()) / 2**32 if who else 0.0
    return delay * (1 - _SPREAD * spread)
