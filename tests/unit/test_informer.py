"""The informer: what it asks the API server for, and that its store is equal to the server whatever happens between."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from support.factories import UID, manifest
from support.raw import raw_pod as pod

from tfdist_operator.kube.errors import Gone, Refused, Unavailable
from tfdist_operator.kube.informer import Informer, Sink, Watched
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key
from tfdist_operator.kube.sinks import WatchedJobs, WatchedPods

Json = dict[str, Any]
KEY = Key("team", "fashion")
PODS = Watched.of("api/v1", "pods", "", "tfdist.dev/job")


def job(version: int, name: str = "fashion", uid: str = UID) -> Json:
    made = manifest(name)
    made["metadata"] |= {"uid": uid, "resourceVersion": str(version), "generation": 1}
    return made


def bookmark(version: int, *, end_of_list: bool = False) -> Json:
    notes = {"annotations": {"k8s.io/initial-events-end": "true"}} if end_of_list else {}
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)} | notes}}


def added(item: Json) -> Json:
    return {"type": "ADDED", "object": item}


class Lines:
    """A connection that gives bytes in pieces, and then nothing more."""

    def __init__(self, events: Sequence[Json], piece: int) -> None:
        self._bytes = b"".join(orjson.dumps(e) + b"\n" for e in events)
        self._piece = piece

    async def iter_any(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._bytes), self._piece):
            yield self._bytes[start : start + self._piece]


class Server:
    """Answers each watch with the next of `answers`: events, or an error; then hangs. Remembers what was asked."""

    def __init__(self, *answers: Sequence[Json] | Exception, pages: Sequence[Json] = (), piece: int = 1 << 20) -> None:
        self._answers = list(answers)
        self._pages = list(pages)
        self._piece = piece
        self.watches: list[Mapping[str, str]] = []
        self.lists: list[Mapping[str, str]] = []
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


async def play(server: Server, sink: Sink) -> Informer:
    """Run an informer until the server has given every answer."""
    informer = Informer(server, PODS, sink)  # type: ignore[arg-type]
    running = asyncio.create_task(informer.run())
    async with asyncio.timeout(30):
        await server.exhausted.wait()
    running.cancel()
    return informer


def pods_of(store: WatchedPods) -> list[str]:
    return [p.name for p in store.of(KEY, UID)]


@pytest.fixture
def pods() -> WatchedPods:
    return WatchedPods(lambda _: None)


async def test_a_list_is_streamed_and_goes_on_as_a_watch_from_its_version(pods: WatchedPods) -> None:
    events = [added(pod(3)), bookmark(7, end_of_list=True), added(pod(8, 1))]
    server = Server(events)
    informer = await play(server, pods)
    assert informer.synced.is_set()
    assert pods_of(pods) == ["fashion-worker-0", "fashion-worker-1"]
    first, second = server.watches
    assert first["sendInitialEvents"] == "true"
    assert first["resourceVersionMatch"] == "NotOlderThan"
    assert "resourceVersion" not in first
    assert second["resourceVersion"] == "8"
    assert "sendInitialEvents" not in second


@pytest.mark.parametrize("piece", [1, 7, 1000])
async def test_events_may_arrive_in_any_pieces(pods: WatchedPods, piece: int) -> None:
    await play(Server([added(pod(3)), bookmark(7, end_of_list=True), added(pod(8, 1))], piece=piece), pods)
    assert len(pods) == 2


async def test_a_list_that_breaks_off_is_begun_anew_and_nobody_is_told_that_it_was_all(pods: WatchedPods) -> None:
    server = Server([added(pod(3))], Unavailable(0, "NoAnswer", ""))
    informer = await play(server, pods)
    assert not informer.synced.is_set()
    assert all("sendInitialEvents" in watch for watch in server.watches)


async def test_what_vanished_while_nobody_watched_is_removed_at_the_next_list(pods: WatchedPods) -> None:
    whole = [added(pod(3)), added(pod(4, 1)), bookmark(7, end_of_list=True)]
    server = Server(whole, Gone(410, "Expired", ""), [added(pod(4, 1)), bookmark(20, end_of_list=True)])
    await play(server, pods)
    assert pods_of(pods) == ["fashion-worker-1"]


async def test_a_version_that_is_too_old_is_told_in_the_stream_as_well(pods: WatchedPods) -> None:
    expired = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    server = Server([bookmark(7, end_of_list=True), expired])
    await play(server, pods)
    assert "sendInitialEvents" in server.watches[1]


async def test_a_broken_watch_is_resumed_from_the_last_bookmark(pods: WatchedPods) -> None:
    server = Server([bookmark(7, end_of_list=True), bookmark(90)], Unavailable(0, "NoAnswer", ""))
    await play(server, pods)
    assert [watch.get("resourceVersion") for watch in server.watches] == [None, "90", "90"]


async def test_a_server_that_does_not_stream_lists_is_asked_page_by_page(pods: WatchedPods) -> None:
    pages = [
        {"items": [pod(3)], "metadata": {"resourceVersion": "7", "continue": "more"}},
        {"items": [pod(4, 1)], "metadata": {"resourceVersion": "7"}},
    ]
    server = Server(Refused(422, "Invalid", "sendInitialEvents is forbidden"), [added(pod(9))], pages=pages)
    informer = await play(server, pods)
    assert informer.synced.is_set()
    assert [query.get("continue") for query in server.lists] == [None, "more"]
    assert [watch.get("resourceVersion") for watch in server.watches] == [None, "7", "9"]
    assert len(pods) == 2


async def test_a_pod_that_only_looks_like_ours_hides_no_other(pods: WatchedPods) -> None:
    odd = pod(3)
    odd["metadata"]["labels"] = {"tfdist.dev/job": "fashion"}
    gone = {"type": "DELETED", "object": odd | {"metadata": odd["metadata"] | {"labels": {}}}}
    await play(Server([added(odd), gone, added(pod(4, 1)), bookmark(7, end_of_list=True)]), pods)
    assert pods_of(pods) == ["fashion-worker-1"]


async def test_the_answer_to_a_creation_does_not_bring_back_what_was_deleted_since(pods: WatchedPods) -> None:
    created = pod(8)
    gone = {"type": "DELETED", "object": pod(9)}
    await play(Server([bookmark(7, end_of_list=True), added(created), gone]), pods)
    pods.put(created)
    assert len(pods) == 0


async def test_the_answer_to_a_creation_is_known_before_the_watch_tells_of_it(pods: WatchedPods) -> None:
    await play(Server([bookmark(7, end_of_list=True)]), pods)
    pods.put(pod(8))
    pods.retain(set(), 7)
    assert len(pods) == 1


async def test_a_job_deleted_while_nobody_watched_is_forgotten_and_its_key_is_told() -> None:
    jobs, changed = JobStore(), list[Key]()
    sink = WatchedJobs(jobs, changed.append)
    both = [added(job(3)), added(job(4, "other", "uid-other")), bookmark(7, end_of_list=True)]
    one = [added(job(4, "other", "uid-other")), bookmark(20, end_of_list=True)]
    await play(Server(both, Gone(410, "Expired", ""), one), sink)
    assert [stored.key.name for stored in jobs.all()] == ["other"]
    assert changed.count(KEY) == 2


async def test_the_answer_to_a_status_write_does_not_bring_back_a_deleted_job() -> None:
    jobs = JobStore()
    gone = {"type": "DELETED", "object": job(9)}
    await play(Server([added(job(3)), bookmark(7, end_of_list=True), gone]), WatchedJobs(jobs, lambda _: None))
    jobs.put(job(8))
    assert len(jobs) == 0


async def test_the_deletion_of_a_predecessor_leaves_a_new_job_of_its_name() -> None:
    jobs = JobStore()
    gone = {"type": "DELETED", "object": job(9, uid="old")}
    events = [added(job(12, uid="new")), bookmark(12, end_of_list=True), gone]
    await play(Server(events), WatchedJobs(jobs, lambda _: None))
    assert [stored.uid for stored in jobs.all()] == ["new"]
