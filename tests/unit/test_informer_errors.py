"""Errors of informers: objects of any shape, lines that are not events, errors of the server and of sinks."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.factories import UID
from support.fake_watch import Json, Server, added, bookmark, play
from support.raw import raw_pod as pod

from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.kube.errors import ForbiddenError
from tfdist_operator.kube.keys import NamespacedName

KEY = NamespacedName("team", "fashion")


def pods_of(store: PodCache) -> list[str]:
    return [p.name for p in store.job_pods(KEY, UID)]


@pytest.fixture
def pods() -> PodCache:
    return PodCache(lambda _: None)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"null", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": 1}', b"\xff"]
)
async def test_a_line_that_is_no_event_is_skipped(pods: PodCache, line: bytes) -> None:
    await play(Server([line, added(pod(4, 1)), bookmark(7, end_of_list=True)]), pods)
    assert pods_of(pods) == ["fashion-worker-1"]


async def test_an_exception_of_a_sink_about_an_object_hides_no_other(pods: PodCache) -> None:
    class Broken(PodCache):
        def on_update(self, raw: Mapping[str, Any]) -> None:
            if raw["metadata"]["name"].endswith("0"):
                raise RecursionError
            pods.on_update(raw)

    informer = await play(Server([added(pod(3)), added(pod(4, 1)), bookmark(7, end_of_list=True)]), Broken(print))
    assert informer.synced.is_set()
    assert pods_of(pods) == ["fashion-worker-1"]


async def test_a_list_about_which_a_sink_raises_is_repeated() -> None:
    class Broken(PodCache):
        def replace(self, *_: object) -> None:
            raise ZeroDivisionError

    whole = [added(pod(4, 1)), bookmark(7, end_of_list=True)]
    server = Server(whole, whole)
    await play(server, Broken(lambda _: None))
    assert all("sendInitialEvents" in watch for watch in server.watches)


def failure(code: int, reason: str) -> Json:
    return {"type": "ERROR", "object": {"kind": "Status", "code": code, "reason": reason, "message": "etcd"}}


@pytest.mark.parametrize(("code", "reason"), [(500, "InternalError"), (429, "TooManyRequests"), (410, "Expired")])
async def test_errors_of_a_watch_are_answered_more_and_more_slowly(pods: PodCache, code: int, reason: str) -> None:
    """Given lists that always end with an error; then the next is asked for after a wait that grows to seconds."""
    broken = [added(pod(3)), failure(code, reason)]
    server = Server(*[broken] * 12)
    await play(server, pods)
    assert sum(server.slept) > 15
    assert max(server.slept) <= 8


async def test_a_watch_with_an_error_of_the_server_is_resumed_without_a_list(pods: PodCache) -> None:
    server = Server([bookmark(7, end_of_list=True), failure(500, "InternalError")])
    await play(server, pods)
    assert server.watches[1]["resourceVersion"] == "7"


async def test_a_watch_that_cannot_be_resumed_for_its_errors_ends_in_a_list(pods: PodCache) -> None:
    server = Server([bookmark(7, end_of_list=True)], *[[failure(500, "InternalError")]] * 5)
    await play(server, pods)
    assert "sendInitialEvents" in server.watches[-1]


async def test_a_403_does_not_end_streamed_lists(pods: PodCache) -> None:
    """Given an API server that has just started and has not read its roles; then the next list is streamed again."""
    forbidden = ForbiddenError(403, "Forbidden", 'User "x" cannot list resource "pods"')
    server = Server(forbidden, [added(pod(3)), bookmark(7, end_of_list=True)])
    await play(server, pods)
    assert server.lists == []
    assert pods_of(pods) == ["fashion-worker-0"]
