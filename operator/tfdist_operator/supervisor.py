"""Supervises the controller's named tasks: none may end before it is stopped."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

log = logging.getLogger(__name__)


class TaskSupervisor:
    """Runs coroutines as named tasks. `on_end` is called when one ends by itself, which is a failure of the process."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._tasks: set[asyncio.Task[object]] = set()
        self._stopping = False

    def start(self, name: str, part: Coroutine[object, object, object]) -> None:
        """Run a task until it ends or all are stopped."""
        task = asyncio.create_task(part, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_end)

    async def stop(self, seconds: float) -> None:
        """Cancel all tasks, and wait for them up to a time limit; tasks that do not end are logged."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if not self._tasks:
            return
        _, stuck = await asyncio.wait(set(self._tasks), timeout=seconds)
        if stuck:
            log.warning("tasks did not stop in time", extra={"tasks": sorted(t.get_name() for t in stuck)})

    def _on_task_end(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        failure = None if task.cancelled() else task.exception()
        # None ends by itself: the process exits, and Kubernetes restarts it with all state from the API server.
        if not self._stopping:
            log.error("a task of the controller ended", extra={"task": task.get_name()}, exc_info=failure)
            self._on_end()
