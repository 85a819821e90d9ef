"""The handle of one job for a running event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeVar

from tfdist.api.status import JobPhase
from tfdist.client.async_iterator import in_thread
from tfdist.client.client import Client
from tfdist.client.events import Event
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job, JobResult
from tfdist.client.log_stream import LogLine
from tfdist.client.stop_signal import StopSignal

T = TypeVar("T")


class AsyncJobHandle:
    """Controls one job from a coroutine; as `JobHandle`."""

    def __init__(self, client: Client, job: Job) -> None:
        self._client = client
        self._handle = client.handle(job)

    def __repr__(self) -> str:
        return repr(self._handle)

    def _repr_html_(self) -> str:
        return self._handle._repr_html_()

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._handle.name

    @property
    def namespace(self) -> str:
        """Namespace of the job."""
        return self._handle.namespace

    @property
    def job(self) -> Job:
        """The job as it was last read."""
        return self._handle.job

    async def refresh(self) -> Job:
        """Read the job again and return it."""
        return await asyncio.to_thread(self._handle.refresh)

    async def watch(self, *, seconds: float | None = None) -> AsyncIterator[Job]:
        """Yield the job, and again after each change."""
        async for job in self._with_handle(lambda handle: handle.watch(seconds=seconds)):
            self._handle = self._client.handle(job)
            yield job

    def logs(
        self,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        since: float | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[LogLine]:
        """Yield the lines of the replicas' logs, as `JobHandle.logs`."""
        return self._with_handle(lambda handle: handle.logs(role, index, attempt, since, tail, follow))

    async def tail(self, lines: int = 10, role: str | None = None, index: int | None = None) -> list[LogLine]:
        """Return the last lines of each log, as `JobHandle.tail`."""
        return await asyncio.to_thread(self._handle.tail, lines, role, index)

    async def wait(self, timeout: float | None = None) -> JobResult:  # noqa: ASYNC109  as JobHandle.wait
        """Wait until the job has ended, and return its outcome, as `JobHandle.wait`."""
        return await _only(self._with_handle(lambda handle: _once(lambda: handle.wait(timeout))))

    async def wait_for(self, phases: Iterable[JobPhase] = (), timeout: float | None = None) -> Job:  # noqa: ASYNC109
        """Wait until the job has one of `phases`, or has ended, as `JobHandle.wait_for`."""
        wanted = tuple(phases)
        return await _only(self._with_handle(lambda handle: _once(lambda: handle.wait_for(wanted, timeout))))

    async def delete(self) -> None:
        """Delete the job, and no other one of its name."""
        await asyncio.to_thread(self._handle.delete)

    async def suspend(self) -> Job:
        """Have the job save a checkpoint and stop."""
        return await asyncio.to_thread(self._handle.suspend)

    async def resume(self) -> Job:
        """Continue the job from its last checkpoint."""
        return await asyncio.to_thread(self._handle.resume)

    async def restart(self) -> Job:
        """Restart the gang; the restart is not counted."""
        return await asyncio.to_thread(self._handle.restart)

    async def scale(self, workers: int) -> Job:
        """Set the number of workers."""
        return await asyncio.to_thread(self._handle.scale, workers)

    async def events(self) -> list[Event]:
        """Return the events of the job and its pods, newest last."""
        return await asyncio.to_thread(self._handle.events)

    def _with_handle(self, items: Callable[[JobHandle], Iterator[T]]) -> AsyncIterator[T]:
        return iterate(self._client, lambda client: items(client.handle(self._handle.job)))


def iterate(client: Client, items: Callable[[Client], Iterator[T]]) -> AsyncIterator[T]:
    """Yield what a client yields in a thread, whose request ends with this iterator."""
    stopped = StopSignal()
    return in_thread(lambda: items(client.stoppable(stopped)), stopped)


def _once(call: Callable[[], T]) -> Iterator[T]:
    """Yield the result of a call."""
    yield call()


async def _only(items: AsyncIterator[T]) -> T:
    async for item in items:
        return item
    raise RuntimeError("a call without a result")
