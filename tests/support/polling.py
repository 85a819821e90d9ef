"""Waiting for what another process or server does."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

WAIT_SECONDS: Final = 240.0
"""Ends a test that hangs. Not a measure of speed: a machine may run fifty of these tests at once."""


def wait_for(
    what: str,
    probe: Callable[[], T],
    seconds: float = WAIT_SECONDS,
    every_seconds: float = 0.05,
    context: Callable[[], str] = str,
) -> T:
    """Return the first true value of `probe`, which is asked again and again.

    Raises:
        AssertionError: it did not become true in time; the message has the last value and the text of `context`.
    """
    end = time.monotonic() + seconds
    while not (value := probe()):
        assert time.monotonic() < end, f"waited {seconds:.0f} s for {what}; last seen: {value!r}\n{context()}"
        time.sleep(every_seconds)
    return value


async def until(condition: Callable[[], bool]) -> None:
    """Return when a condition holds that another task causes, and that no event reports."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
