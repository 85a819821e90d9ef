"""A batch of jobs for a running event loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from tfdist.client.async_handle import AsyncJobHandle
from tfdist.client.batch import BatchHandle
from tfdist.client.client import Client
from tfdist.client.handle import JobHandle
from tfdist.client.job import JobResult

T = TypeVar("T")


class AsyncBatchHandle:
    """Controls the jobs of a batch from a coroutine; as `BatchHandle`.

    Each round of requests runs in a thread, and the pause between two rounds in the event loop. A round that has begun
    when its task is cancelled ends; no further one begins.
    """

    def __init__(self, client: Client, batch: BatchHandle) -> None:
        self._client, self._batch = client, batch
        self._lock = threading.Lock()
        """A round of a cancelled task may still run."""

    def __len__(self) -> int:
        return len(self._batch)

    def __repr__(self) -> str:
        return repr(self._batch)

    def _repr_html_(self) -> str:
        return self._batch._repr_html_()

    @property
    def name(self) -> str:
        """Name of the batch."""
        return self._batch.name

    @property
    def jobs(self) -> list[AsyncJobHandle]:
        """Handles of the jobs that have been submitted, in the order of their arguments."""
        return self._handles(self._batch.jobs)

    async def refresh(self) -> None:
        """Read all jobs again, as `BatchHandle.refresh`."""
        await self._in_thread(self._batch.refresh)

    async def as_completed(self, timeout: float | None = None) -> AsyncIterator[AsyncJobHandle]:  # noqa: ASYNC109
        """Yield each job once it has finished, and create the next ones, as `BatchHandle.as_completed`."""
        rounds = self._batch.rounds(timeout)
        while (item := await self._in_thread(lambda: next(rounds, None))) is not None:
            if isinstance(item, float):
                await asyncio.sleep(item)
                continue
            for handle in self._handles(item):
                yield handle

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109  as BatchHandle.wait
        """Wait until all jobs have finished, as `BatchHandle.wait`."""
        async for _ in self.as_completed(timeout):
            pass

    async def results(self, timeout: float | None = None) -> list[JobResult]:  # noqa: ASYNC109  as BatchHandle.results
        """Wait until all jobs have finished, and return their outcomes, as `BatchHandle.results`."""
        await self.wait(timeout)
        return self._batch.outcomes()

    async def failures(self) -> list[AsyncJobHandle]:
        """Return the jobs that have failed, as `BatchHandle.failures`."""
        return self._handles(await self._in_thread(self._batch.failures))

    async def status(self) -> dict[str, int]:
        """Return the number of jobs in each phase, as `BatchHandle.status`."""
        return await self._in_thread(self._batch.status)

    async def cancel(self) -> None:
        """Delete the unfinished jobs, and submit no other ones, as `BatchHandle.cancel`."""
        await self._in_thread(self._batch.cancel)

    def _handles(self, handles: list[JobHandle]) -> list[AsyncJobHandle]:
        return [AsyncJobHandle(self._client, handle.job) for handle in handles]

    async def _in_thread(self, call: Callable[[], T]) -> T:
        def run() -> T:
            with self._lock:
                return call()

        return await asyncio.to_thread(run)
