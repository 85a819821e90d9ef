"""Many requests of one kind in parallel, with a slow start: 1, 2, 4, ... at a time.

Where the first is refused, as by a quota, the others are not even tried: a job of 400 replicas costs one refused
request and not 400. The connection pool bounds what all jobs have in flight together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

LARGEST_BATCH: Final = 64


async def slow_start(items: Sequence[T], send: Callable[[T], Awaitable[None]]) -> None:
    """Call `send` for every item.

    Raises:
        Exception: the first that `send` raised; the items of later batches were not sent.
    """
    position, size = 0, 1
    while position < len(items):
        batch = items[position : position + size]
        results = await asyncio.gather(*map(send, batch), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        position += len(batch)
        size = min(size * 2, LARGEST_BATCH)
