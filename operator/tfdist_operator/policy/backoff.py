"""How long to wait before a restart: none for the first, then 10 s doubling up to 300 s."""

from typing import Final

FIRST_DELAY_SECONDS: Final = 10.0
LONGEST_DELAY_SECONDS: Final = 300.0


def restart_delay_seconds(counted_restarts: int) -> float:
    """Return the delay before the restart that makes `counted_restarts` of them."""
    if counted_restarts <= 1:
        return 0.0
    exponent = min(counted_restarts - 2, 16)
    return min(FIRST_DELAY_SECONDS * 2.0**exponent, LONGEST_DELAY_SECONDS)
