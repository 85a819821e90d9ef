"""The informer: its requests to the API server, and that its store is equal to the server after any interruption."""

import logging
from types import SimpleNamespace

import pytest
from support.factories import UID
from support.fake_watch import Server, added, bookmark, play
from support.raw import raw_pod as pod

from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.kube.errors import GoneError, RejectedError, SilentWatchError, UnavailableError
from tfdist_operator.kube.keys import NamespacedName

KEY = NamespacedName("team", "fashion")


def pods_of(store: PodCache) -> list[str]:
    return [p.name for p in store.job_pods(KEY, UID)]


@pytest.fixture
def pods() -> PodCache:
    return PodCache(lambda _: None)


async def test_a_list_is_streamed_and_continues_as_a_watch_from_its_version(pods: PodCache) -> None:
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
async def test_events_may_arrive_in_any_pieces(pods: PodCache, piece: int) -> None:
    await play(Server([added(pod(3)), bookmark(7, end_of_list=True), added(pod(8, 1))], piece=piece), pods)
    assert len(pods) == 2


async def test_an_interrupted_list_is_repeated_and_does_not_count_as_complete(pods: PodCache) -> None:
    server = Server([added(pod(3))], UnavailableError(0, "NoAnswer", ""))
    informer = await play(server, pods)
    assert not informer.synced.is_set()
    assert all("sendInitialEvents" in watch for watch in server.watches)


async def test_pods_that_were_deleted_during_a_gap_of_the_watch_are_removed_at_the_next_list(pods: PodCache) -> None:
    whole = [added(pod(3)), added(pod(4, 1)), bookmark(7, end_of_list=True)]
    server = Server(whole, GoneError(410, "Expired", ""), [added(pod(4, 1)), bookmark(20, end_of_list=True)])
    await play(server, pods)
    assert pods_of(pods) == ["fashion-worker-1"]


async def test_an_expired_version_may_be_reported_in_the_stream(pods: PodCache) -> None:
    expired = {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}
    server = Server([bookmark(7, end_of_list=True), expired])
    await play(server, pods)
    assert "sendInitialEvents" in server.watches[1]


async def test_a_broken_watch_is_resumed_from_the_last_bookmark(pods: PodCache) -> None:
    server = Server([bookmark(7, end_of_list=True), bookmark(90)], UnavailableError(0, "NoAnswer", ""))
    await play(server, pods)
    assert [watch.get("resourceVersion") for watch in server.watches] == [None, "90", "90"]


async def test_an_idle_watch_is_resumed_again_and_again_without_a_warning_or_a_growing_delay(
    pods: PodCache, caplog: pytest.LogCaptureFixture
) -> None:
    """Given an API server that sends no bookmarks, as for a kind that has not changed since its start."""
    silence = SilentWatchError(0, "Silent", "Timeout on reading data from socket")
    server = Server([bookmark(7, end_of_list=True)], *[silence] * 10)
    with caplog.at_level(logging.INFO):
        informer = await play(server, pods)
    assert [watch.get("resourceVersion") for watch in server.watches] == [None, *["7"] * 11]
    assert max(server.slept) < 1
    assert not caplog.records
    assert informer.synced.is_set()


async def test_the_answer_to_a_resumed_watch_is_contact_with_the_server(
    pods: PodCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a watch that receives nothing; then the liveness probe passes, which asks for the last contact."""
    server = Server([bookmark(7, end_of_list=True)], [])
    clock = SimpleNamespace(monotonic=lambda: len(server.watches) * 100.0)
    monkeypatch.setattr("tfdist_operator.cache.informer.time", clock)
    informer = await play(server, pods)
    assert informer.last_contact == 200, "of the second watch; the third is not answered"


async def test_a_list_that_becomes_silent_is_repeated_more_and_more_slowly(pods: PodCache) -> None:
    server = Server(*[SilentWatchError(0, "Silent", "")] * 12)
    informer = await play(server, pods)
    assert sum(server.slept) > 15
    assert all("sendInitialEvents" in watch for watch in server.watches)
    assert not informer.synced.is_set()


async def test_lists_of_a_server_that_does_not_stream_them_are_paginated(pods: PodCache) -> None:
    pages = [
        {"items": [pod(3)], "metadata": {"resourceVersion": "7", "continue": "more"}},
        {"items": [pod(4, 1)], "metadata": {"resourceVersion": "7"}},
    ]
    server = Server(RejectedError(422, "Invalid", "sendInitialEvents is forbidden"), [added(pod(9))], pages=pages)
    informer = await play(server, pods)
    assert informer.synced.is_set()
    assert [query.get("continue") for query in server.lists] == [None, "more"]
    assert [watch.get("resourceVersion") for watch in server.watches] == [None, "7", "9"]
    assert len(pods) == 2


async def test_a_pod_with_only_some_labels_of_a_replica_hides_no_other(pods: PodCache) -> None:
    odd = pod(3)
    odd["metadata"]["labels"] = {"tfdist.dev/job": "fashion"}
    gone = {"type": "DELETED", "object": odd | {"metadata": odd["metadata"] | {"labels": {}}}}
    await play(Server([added(odd), gone, added(pod(4, 1)), bookmark(7, end_of_list=True)]), pods)
    assert pods_of(pods) == ["fashion-worker-1"]


async def test_the_response_to_a_creation_does_not_restore_a_pod_that_was_deleted_since(pods: PodCache) -> None:
    created = pod(8)
    gone = {"type": "DELETED", "object": pod(9)}
    await play(Server([bookmark(7, end_of_list=True), added(created), gone]), pods)
    pods.upsert(created)
    assert len(pods) == 0


async def test_a_created_pod_is_cached_before_the_watch_reports_it(pods: PodCache) -> None:
    await play(Server([bookmark(7, end_of_list=True)]), pods)
    pods.upsert(pod(8))
    pods.replace(set(), 7)
    assert len(pods) == 1
