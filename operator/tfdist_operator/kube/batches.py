"""Many requests of one kind in parallel, with a slow start: one at first, then two, four, ... in flight.

Where the first is refused, as by a quota, the others are not even tried: a job of 400 replicas costs one refused
request and not 400. Each success lets two more go, up to a limit, so that a slow request holds up nobody but itself.
The connection pool bounds what all jobs have in flight together.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
Flying = set[asyncio.Future[None]]

MOST_IN_FLIGHT: Final = 64


async def slow_start(items: Sequence[T], send: Callable[[T], Awaitable[None]]) -> None:
    """Call `send` for every item; cancelled, it returns when everything in flight has been cancelled too.

    Raises:
        Exception: the first that `send` raised; items that were not sent by then are not sent.
    """
    flying: Flying = set()
    try:
        await _send_all(items, send, flying)
    finally:
        for sent in flying:
            sent.cancel()
        await asyncio.gather(*flying, return_exceptions=True)


async def _send_all(
    items: Sequence[T], send: Callable[[T], Awaitable[None]], flying: set[asyncio.Future[None]]
) -> None:
    """Call `send` for every item; `flying` always holds what has not ended."""
    waiting, window = iter(items), 1
    while True:
        flying |= {asyncio.ensure_future(send(item)) for item in itertools.islice(waiting, window - len(flying))}
        if not flying:
            return
        done, _ = await asyncio.wait(flying, return_when=asyncio.FIRST_COMPLETED)
        flying -= done
        failure = next((error for task in done if (error := task.exception())), None)
        if failure is not None:
            await asyncio.gather(*flying, return_exceptions=True)
            raise failure
        window = min(window + len(done), MOST_IN_FLIGHT)
