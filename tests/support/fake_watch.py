"""A server that informers watch: it gives the answers of a script, and remembers what it was asked for."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson

from support.factories import UID, manifest
from tfdist_operator.cache.informer import Informer, ResourceEventHandler, WatchedResource

Json = dict[str, Any]
PODS = WatchedResource.for_kind("api/v1", "pods", "", "tfdist.dev/job")


def job(version: int, name: str = "fashion", uid: str = UID) -> Json:
    document = manifest(name)
    document["metadata"] |= {"uid": uid, "resourceVersion": str(version), "generation": 1}
    return document


def bookmark(version: int, *, end_of_list: bool = False) -> Json:
    notes = {"annotations": {"k8s.io/initial-events-end": "true"}} if end_of_list else {}
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)} | notes}}


def added(item: Json) -> Json:
    return {"type": "ADDED", "object": item}


class Lines:
    """A connection that gives bytes in pieces, and then nothing more."""

    def __init__(self, events: Sequence[Json | bytes], piece: int) -> None:
        self._bytes = b"".join((e if isinstance(e, bytes) else orjson.dumps(e)) + b"\n" for e in events)
        self._piece = piece

    async def iter_any(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._bytes), self._piece):
            yield self._bytes[start : start + self._piece]


class Server:
    """Answers each watch with the next of `answers`: events, or an error; then hangs. Remembers what was asked."""

    def __init__(
        self, *answers: Sequence[Json | bytes] | Exception, pages: Sequence[Json] = (), piece: int = 1 << 20
    ) -> None:
        self._answers = list(answers)
        self._pages = list(pages)
        self._piece = piece
        self.watches: list[Mapping[str, str]] = []
        self.lists: list[Mapping[str, str]] = []
        self.slept: list[float] = []
        self.exhausted = asyncio.Event()

    async def request(self, _method: str, _path: str, *, query: Mapping[str, str], **_: object) -> Json:
        self.lists.append(dict(query))
        return self._pages.pop(0)

    @asynccontextmanager
    async def stream(self, _path: str, *, query: Mapping[str, str], **_: object) -> AsyncIterator[Any]:
        self.watches.append(dict(query))
        if not self._answers:
            self.exhausted.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield Lines(answer, self._piece)


async def play(server: Server, handler: ResourceEventHandler) -> Informer:
    """Run an informer until the server has given every answer; its waits are in `slept` and take no time."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    informer = Informer(server, PODS, handler, sleep=sleep)  # type: ignore[arg-type]
    server.slept = slept
    running = asyncio.create_task(informer.run())
    async with asyncio.timeout(30):
        done = asyncio.ensure_future(server.exhausted.wait())
        await asyncio.wait({done, running}, return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), "the informer has ended"
    running.cancel()
    return informer
