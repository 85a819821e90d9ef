"""The controller's loops as named tasks, of which none may end before it is told to."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class Parts:
    """Runs coroutines by name. `on_end` is called when one ends by itself, which is a failure of the whole."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._tasks: set[asyncio.Task[object]] = set()
        self._stopping = False

    def start(self, name: str, part: Coroutine[object, object, object]) -> None:
        """Run a part until it ends or all are stopped."""
        task = asyncio.create_task(part, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def stop(self, seconds: float) -> None:
        """Stop all parts, and wait at most so long for them; those that do not stop are left and named."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if not self._tasks:
            return
        _, stuck = await asyncio.wait(set(self._tasks), timeout=seconds)
        if stuck:
            log.warning("parts do not stop; they are left", extra={"parts": sorted(t.get_name() for t in stuck)})

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        if not self._stopping:
            log.error("a part of the controller ended", extra={"part": task.get_name()}, exc_info=failure)
            self._on_end()
