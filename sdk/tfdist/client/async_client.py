"""The client for a running event loop: the methods of `Client` as coroutines and asynchronous iterators.

The package `kubernetes` offers its synchronous client here; its requests run in threads. A wait or a watch has a thread
of its own, which ends when the iterator is closed or its task is cancelled.
"""

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tfdist.api.status import JobPhase
from tfdist.api.v1 import TFDistJob
from tfdist.client.async_iterator import in_thread
from tfdist.client.client import Client
from tfdist.client.code_archive import CodeArchive
from tfdist.client.events import Event
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job, JobResult
from tfdist.client.log_stream import LogLine
from tfdist.client.stop_signal import StopSignal

T = TypeVar("T")
Json = dict[str, Any]


class AsyncClient:
    """Submits, finds and controls jobs from a coroutine.

    >>> client = AsyncClient()
    >>> job = await client.submit(manifest)
    >>> result = await job.wait(timeout=3600)
    """

    def __init__(self, client: Client | None = None, **connection: Any) -> None:
        """Use a client, also a `LocalClient`; by default a new one with the options of `Client`.

        Raises:
            NoCluster: there is no kubeconfig, or no such context in it.
        """
        self.client = client or Client(**connection)

    @property
    def namespace(self) -> str:
        """Namespace of the jobs."""
        return self.client.namespace

    async def submit(
        self,
        job: TFDistJob | Mapping[str, Any],
        *,
        code: str | CodeArchive | None = None,
        set: Mapping[str, Any] | None = None,  # noqa: A002  as in Client
        config_maps: Sequence[Mapping[str, Any]] = (),
        dry_run: bool = False,
    ) -> "AsyncJobHandle":
        """Create a job and what it needs, or nothing, as `Client.submit`.

        A task that is cancelled meanwhile does not stop the creation, which has begun.
        """
        made = await asyncio.to_thread(
            self.client.submit, job, code=code, set=set, config_maps=config_maps, dry_run=dry_run
        )
        return AsyncJobHandle(self.client, made.job)

    async def get(self, name: str) -> Job:
        """Return a job, as `Client.get`."""
        return await asyncio.to_thread(self.client.get, name)

    async def attach(self, name: str) -> "AsyncJobHandle":
        """Return the handle of a job that exists, as `Client.attach`."""
        return AsyncJobHandle(self.client, await self.get(name))

    async def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Job]:
        """Return the jobs of the namespace, or of all, as `Client.list`."""
        return await asyncio.to_thread(self.client.list, all_namespaces=all_namespaces, selector=selector)

    async def delete(self, name: str, *, uid: str | None = None) -> None:
        """Delete a job, as `Client.delete`."""
        await asyncio.to_thread(self.client.delete, name, uid=uid)

    async def suspend(self, name: str) -> Job:
        """Have a job save a checkpoint and stop, as `Client.suspend`."""
        return await asyncio.to_thread(self.client.suspend, name)

    async def resume(self, name: str) -> Job:
        """Continue a suspended job, as `Client.resume`."""
        return await asyncio.to_thread(self.client.resume, name)

    async def restart(self, name: str) -> Job:
        """Restart the gang of a job, as `Client.restart`."""
        return await asyncio.to_thread(self.client.restart, name)

    async def scale(self, name: str, workers: int) -> Job:
        """Set the number of workers, as `Client.scale`."""
        return await asyncio.to_thread(self.client.scale, name, workers)

    async def patch(self, name: str, change: Json) -> Job:
        """Change a job by a merge patch, as `Client.patch`."""
        return await asyncio.to_thread(self.client.patch, name, change)

    async def pods(self, name: str) -> builtins.list[Json]:
        """Return the pods of a job, as `Client.pods`."""
        return await asyncio.to_thread(self.client.pods, name)

    async def events(self, name: str) -> builtins.list[Event]:
        """Return the events of a job, as `Client.events`."""
        return await asyncio.to_thread(self.client.events, name)

    def watch(self, name: str, *, seconds: float | None = None) -> AsyncIterator[Job]:
        """Yield a job, and again after each change, as `Client.watch`."""
        return _iterate(self.client, lambda client: client.watch(name, seconds=seconds))

    def follow_events(self, name: str) -> AsyncIterator[Event]:
        """Yield the events of a job, then each new one, as `Client.follow_events`."""
        return _iterate(self.client, lambda client: client.follow_events(name))

    def in_namespace(self, namespace: str) -> "AsyncClient":
        """Return the client for the jobs of another namespace."""
        return AsyncClient(self.client.in_namespace(namespace))


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

    def _with_handle(self, iterate: Callable[[JobHandle], Iterator[T]]) -> AsyncIterator[T]:
        return _iterate(self._client, lambda client: iterate(client.handle(self._handle.job)))


def _iterate(client: Client, iterate: Callable[[Client], Iterator[T]]) -> AsyncIterator[T]:
    stopped = StopSignal()
    return in_thread(lambda: iterate(client.stoppable(stopped)), stopped)


def _once(call: Callable[[], T]) -> Iterator[T]:
    """Yield the result of a call."""
    yield call()


async def _only(items: AsyncIterator[T]) -> T:
    async for item in items:
        return item
    raise RuntimeError("a call without a result")
