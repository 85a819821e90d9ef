"""Many requests of one kind in parallel, with a slow start (as `slowStartBatch` of the Job controller).

The first request is sent alone; each success admits two more, up to a limit. If a quota rejects the first, the others
are not sent: a job of 400 replicas costs one rejected request and not 400. A slow request delays no other one. The
connection pool limits the requests in flight of all jobs together.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")
InFlight = set[asyncio.Future[None]]

MAX_IN_FLIGHT: Final = 64


async def slow_start(items: Sequence[T], send: Callable[[T], Awaitable[None]]) -> None:
    """Call `send` for every item; when cancelled, it first cancels everything in flight.

    Raises:
        Exception: the first error of `send`; the remaining items are not sent.
    """
    in_flight: InFlight = set()
    try:
        await _send_all(items, send, in_flight)
    finally:
        for task in in_flight:
            task.cancel()
        await asyncio.gather(*in_flight, return_exceptions=True)


async def send_each(items: Sequence[T], send: Callable[[T], Awaitable[None]], at_once: int = 16) -> None:
    """Call `send` for every item, with at most `at_once` calls in flight; after a failure the others are still sent.

    Raises:
        Exception: the first error of `send`, after the calls for all items.
    """
    slots = asyncio.Semaphore(at_once)

    async def one(item: T) -> None:
        async with slots:
            await send(item)

    # All are sent even if one fails: these are deletions and patches, which must not wait for a pod that is rejected.
    results = await asyncio.gather(*map(one, items), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def run_each(*actions: Callable[[], Awaitable[None]]) -> None:
    """Run actions one after the other; after a failure the others still run.

    Raises:
        Exception: the first error, after the last action.
    """
    failures: list[Exception] = []
    for action in actions:
        try:
            await action()
        except Exception as error:
            failures.append(error)
    if failures:
        raise failures[0]


async def _send_all(
    items: Sequence[T], send: Callable[[T], Awaitable[None]], in_flight: set[asyncio.Future[None]]
) -> None:
    """Call `send` for every item; `in_flight` holds the unfinished calls."""
    # One request first: if a quota rejects it, a job of 400 replicas costs one rejected request and not 400.
    pending, window = iter(items), 1
    while True:
        in_flight |= {asyncio.ensure_future(send(item)) for item in itertools.islice(pending, window - len(in_flight))}
        if not in_flight:
            return
        # The first to finish makes room for the next, so that one slow request does not delay the others.
        finished, _ = await asyncio.wait(in_flight, return_when=asyncio.FIRST_COMPLETED)
        in_flight -= finished
        failure = next((error for task in finished if (error := task.exception())), None)
        if failure is not None:
            await asyncio.gather(*in_flight, return_exceptions=True)
            raise failure
        # Each success admits two more: its own place, and one.
        window = min(window + len(finished), MAX_IN_FLIGHT)
