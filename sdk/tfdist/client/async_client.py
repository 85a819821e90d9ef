"""The client for a running event loop: the methods of `Client` as coroutines and asynchronous iterators.

The package `kubernetes` offers its synchronous client here; its requests run in threads. A wait or a watch has a thread
of its own, which ends when the iterator is closed or its task is cancelled.
"""

import asyncio
import builtins
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from tfdist.api.v1 import TFDistJob
from tfdist.client.async_batch import AsyncBatchHandle
from tfdist.client.async_handle import AsyncJobHandle, iterate
from tfdist.client.client import Client
from tfdist.client.code_archive import CodeArchive
from tfdist.client.events import Event
from tfdist.client.function import JobFunction
from tfdist.client.job import Job

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
        include: Sequence[str] = (),
        config_maps: Sequence[Mapping[str, Any]] = (),
        dry_run: bool = False,
    ) -> AsyncJobHandle:
        """Create a job and what it needs, or nothing, as `Client.submit`.

        A task that is cancelled meanwhile does not stop the creation, which has begun.
        """
        handle = await asyncio.to_thread(
            self.client.submit, job, code=code, set=set, include=include, config_maps=config_maps, dry_run=dry_run
        )
        return AsyncJobHandle(self.client, handle.job)

    async def get(self, name: str) -> Job:
        """Return a job, as `Client.get`."""
        return await asyncio.to_thread(self.client.get, name)

    async def attach(self, name: str) -> AsyncJobHandle:
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
        return iterate(self.client, lambda client: client.watch(name, seconds=seconds))

    def follow_events(self, name: str) -> AsyncIterator[Event]:
        """Yield the events of a job, then each new one, as `Client.follow_events`."""
        return iterate(self.client, lambda client: client.follow_events(name))

    async def map(
        self,
        function: JobFunction[..., Any],
        arguments: Iterable[Mapping[str, Any]],
        *,
        parallelism: int | None = None,
        name: str | None = None,
    ) -> AsyncBatchHandle:
        """Create a job for each of several sets of arguments, as `map` of a function.

        A task that is cancelled meanwhile does not stop the creation, which has begun.
        """
        batch = await asyncio.to_thread(function.map, arguments, parallelism=parallelism, name=name, client=self.client)
        return AsyncBatchHandle(self.client, batch)

    async def batch(self, name: str) -> AsyncBatchHandle:
        """Return a batch of jobs that was submitted by this or another process, as `Client.batch`."""
        return AsyncBatchHandle(self.client, await asyncio.to_thread(self.client.batch, name))

    def in_namespace(self, namespace: str) -> "AsyncClient":
        """Return the client for the jobs of another namespace."""
        return AsyncClient(self.client.in_namespace(namespace))
