"""Iterates in a thread, for an event loop."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, NoReturn, TypeVar

from tfdist.client.stop_signal import Stopped, StopSignal

T = TypeVar("T")

_BUFFER: Final = 64
"""Items that the thread may be ahead."""


async def in_thread(iterate: Callable[[], Iterator[T]], stopped: StopSignal) -> AsyncIterator[T]:
    """Yield the items of an iterator that runs in a thread of its own, and raise what it raises.

    Args:
        iterate: makes the iterator, in the thread.
        stopped: is set when this iterator is closed or its task is cancelled; then the thread ends.
    """
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[Callable[[], T]]()
    space = threading.Semaphore(_BUFFER)

    def send(item: Callable[[], T]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(queue.put_nowait, item)

    def run() -> None:
        try:
            for item in iterate():
                space.acquire()
                stopped.check()
                send(lambda item=item: item)  # type: ignore[misc]
        except Stopped:
            pass
        except BaseException as error:
            send(_raising(error))
        else:
            send(_raising(StopAsyncIteration()))

    threading.Thread(target=run, name="tfdist-iterator", daemon=True).start()
    try:
        while True:
            item = await queue.get()
            space.release()
            try:
                value = item()
            except StopAsyncIteration:
                return
            yield value
    finally:
        space.release()
        stopped.set()


def _raising(error: BaseException) -> Callable[[], NoReturn]:
    def raise_it() -> NoReturn:
        raise error

    return raise_it
