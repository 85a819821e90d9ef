"""The HTTP session of kopf: no object, error or outage ends its watch."""

import asyncio
from typing import Any, ClassVar

import pytest
from support.factories import UID, manifest
from support.kopf_server import JOBS, watching

from tfdist_operator import handlers
from tfdist_operator.cache.informer import WatchedResource
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.resync import CacheComparison, Resync
from tfdist_operator.kopf_adapter import kopf_session
from tfdist_operator.kopf_adapter.job_watch import JobWatch
from tfdist_operator.kube.backoff import RECONNECT, Backoff
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.keys import NamespacedName


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kopf_session, "RELIST", Backoff(0.01, 0.01))
    monkeypatch.setattr(handlers, "RECONNECT", Backoff(0.01, 0.01))
    monkeypatch.setattr(handlers, "_LOGIN_SECONDS", 0.01)


def job(version: int, name: str = "fashion", **metadata: Any) -> dict[str, Any]:
    made = manifest(name)
    made["metadata"] |= {"uid": f"{UID}-{name}", "resourceVersion": str(version), "generation": 1} | metadata
    return made


async def test_kopf_lists_as_a_stream_and_resumes_from_the_last_bookmark() -> None:
    async with watching() as kopf:
        first = await kopf.stream()
        assert (first.query["sendInitialEvents"], "resourceVersion" in first.query) == ("true", False)
        first.send("ADDED", job(3))
        first.end_of_list(7)
        first.send("BOOKMARK", {"metadata": {"resourceVersion": "90"}})
        first.lines.put_nowait(b"")  # the server ends the stream
        second = await kopf.stream()
        assert (second.query["resourceVersion"], "sendInitialEvents" in second.query) == ("90", False)
        second.send("MODIFIED", job(91))
        second.send("DELETED", job(92))
        await kopf.until(lambda: len(kopf.events) == 3)
        assert kopf.events == [(None, "fashion"), ("MODIFIED", "fashion"), ("DELETED", "fashion")]


async def test_an_object_that_no_parser_can_follow_reaches_the_handler_without_its_depths() -> None:
    async with watching() as kopf:
        stream = await kopf.stream()
        deep = b'{"metadata":{"managedFields":' + b"[" * 1100 + b'"]}"' + b"]" * 1100
        deep += b',"name":"deep","uid":"d","resourceVersion":"3"},"spec":' + b'{"a":' * 9000 + b"1" + b"}" * 9001
        stream.send("ADDED", deep)
        stream.send("ADDED", job(4))
        await kopf.until(lambda: len(kopf.events) == 2)
        assert {name for _, name in kopf.events} == {"deep", "fashion"}


async def test_an_error_in_the_stream_is_answered_with_a_list() -> None:
    async with watching() as kopf:
        for code in (410, 500, 429):
            stream = await kopf.stream()
            assert "sendInitialEvents" in stream.query
            stream.end_of_list(7)
            stream.send("ERROR", {"kind": "Status", "code": code, "message": "the test's error"})
        (await kopf.stream()).send("ADDED", job(9))
        await kopf.until(lambda: kopf.events == [(None, "fashion")])


class Recorded(Backoff):
    """Delays nothing, and records the numbers of failures."""

    failures: ClassVar[list[int]] = []

    def seconds(self, failures: int) -> float:
        self.failures.append(failures)
        return 0.0


async def test_lists_after_repeated_errors_are_further_and_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(2.0, 60.0)
    recorded.failures.clear()
    monkeypatch.setattr(kopf_session, "RELIST", recorded)
    error = {"kind": "Status", "code": 500, "message": "the test's error"}
    async with watching() as kopf:
        # given a server whose watches fail after each list, whatever the list holds
        for _ in range(3):
            stream = await kopf.stream()
            stream.send("ADDED", job(3))
            stream.end_of_list(7)
            stream.send("ERROR", error)
        # when a watch delivers an event after its list, and fails then
        stream = await kopf.stream()
        stream.end_of_list(8)
        stream.send("MODIFIED", job(9))
        await kopf.until(lambda: ("MODIFIED", "fashion") in kopf.events)
        stream.send("ERROR", error)
        await kopf.stream()
    # then the delay has grown with each failure, and begins again after the event
    assert recorded.failures == [1, 2, 3, 1]


@pytest.mark.parametrize("code", [404, 410])
async def test_lists_of_a_kind_that_is_gone_are_further_and_further_apart(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(2.0, 60.0)
    recorded.failures.clear()
    monkeypatch.setattr(kopf_session, "RELIST", recorded)
    async with watching() as kopf:
        kopf.answer = lambda: code
        await kopf.until(lambda: len(recorded.failures) > 3)
    assert recorded.failures[:4] == [1, 2, 3, 4]


async def test_a_stream_that_breaks_within_a_line_loses_only_the_line() -> None:
    async with watching() as kopf:
        first = await kopf.stream()
        first.end_of_list(7)
        first.lines.put_nowait(b'{"type":"ADDED","obj')
        first.lines.put_nowait(b"")
        (await kopf.stream()).send("ADDED", job(9))
        await kopf.until(lambda: kopf.events == [("ADDED", "fashion")])


async def test_temporary_http_errors_end_no_watch() -> None:
    error_codes = iter([403, 429, 503])
    async with watching() as kopf:
        kopf.answer = lambda: next(error_codes, 200)
        (await kopf.stream()).send("ADDED", job(9))
        await kopf.until(lambda: kopf.events == [(None, "fashion")])


async def test_a_session_that_is_no_longer_authorized_is_replaced() -> None:
    error_codes = iter([401, 401])
    async with watching() as kopf:
        kopf.answer = lambda: next(error_codes, 200)
        (await kopf.stream()).send("ADDED", job(9))
        await kopf.until(lambda: kopf.events == [(None, "fashion")])


async def test_every_list_of_kopf_s_is_announced_when_it_is_complete() -> None:
    async with watching() as kopf:
        first = await kopf.stream()
        listed = asyncio.create_task(kopf.kopf_session.wait_until_listed())
        first.send("ADDED", job(3, annotations={"k8s.io/initial-events-end": "true"}))
        await kopf.until(lambda: len(kopf.events) == 1)
        assert not listed.done(), "a job with that annotation does not end a list"
        first.end_of_list(7)
        await kopf.until(listed.done)
        first.send("ERROR", {"kind": "Status", "code": 410})
        again = asyncio.create_task(kopf.kopf_session.wait_until_listed())
        (await kopf.stream()).end_of_list(9)
        await kopf.until(again.done)


async def test_a_bookmark_counts_as_contact() -> None:
    async with watching() as kopf:
        stream = await kopf.stream()
        stream.end_of_list(7)
        await kopf.kopf_session.wait_until_listed()
        before = kopf.kopf_session.last_contact[JOBS]
        stream.send("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
        await kopf.until(lambda: kopf.kopf_session.last_contact[JOBS] > before)


async def test_a_resumed_watch_without_bookmarks_counts_as_contact() -> None:
    async with watching() as kopf:
        first = await kopf.stream()
        first.end_of_list(7)
        await kopf.kopf_session.wait_until_listed()
        before = kopf.kopf_session.last_contact[JOBS]
        first.lines.put_nowait(b"")  # the server ends the stream
        await kopf.stream()
        await kopf.until(lambda: kopf.kopf_session.last_contact[JOBS] > before)


async def test_a_watch_that_is_broken_on_purpose_is_resumed() -> None:
    async with watching() as kopf:
        stream = await kopf.stream()
        stream.end_of_list(7)
        await kopf.kopf_session.wait_until_listed()
        kopf.kopf_session.reconnect("")
        assert (await kopf.stream()).query["resourceVersion"] == "7"


async def test_kopf_patches_no_job() -> None:
    finalizers = ["kopf.zalando.org/KopfFinalizerMarker", "no finalizer is used"]
    async with watching() as kopf:
        stream = await kopf.stream()
        stream.send("ADDED", job(3, finalizers=finalizers[:1], annotations={"kopf.zalando.org/touch-dummy": "x"}))
        stream.send("ADDED", job(4, "other"))
        await kopf.until(lambda: len(kopf.events) == 2)
        stream.send("MODIFIED", job(5))
        stream.send("MODIFIED", job(6, "other"))
        # kopf handles the events of an object one after another, each with its patch
        await kopf.until(lambda: len(kopf.events) == 4)
        assert not [asked for asked in kopf.requests if not asked.startswith("GET ")]


async def test_a_job_that_the_store_cannot_read_hides_no_other() -> None:
    async with watching() as kopf:
        stream = await kopf.stream()
        stream.send("ADDED", {"metadata": {"uid": "u", "resourceVersion": "3"}})
        stream.send("ADDED", job(4))
        await kopf.until(lambda: kopf.events == [(None, "fashion")])


async def test_jobs_that_were_deleted_in_a_gap_are_removed_though_kopf_reports_nothing_of_them() -> None:
    changed: list[NamespacedName] = []
    jobs = JobCache(on_change=changed.append)
    async with watching() as kopf, ApiClient(kopf.server, None, dict) as client:
        kopf.on_event = lambda kind, raw: (jobs.on_delete if kind == "DELETED" else jobs.on_update)(raw)
        resync = Resync(
            client, [CacheComparison(WatchedResource.for_kind("apis/tfdist.dev/v1", "tfdistjobs", ""), jobs)], [], print
        )
        watch = JobWatch(kopf.kopf_session, resync.compare_jobs, lambda _: asyncio.sleep(0))
        comparing = asyncio.create_task(watch.run())
        # given two jobs that are known
        kopf.stored = [job(3, "gone"), job(4, "kept")]
        stream = await kopf.stream()
        for item in kopf.stored:
            stream.send("ADDED", item)
        stream.end_of_list(7)
        await kopf.until(watch.synced.is_set)
        assert len(jobs) == 2
        # when one is deleted while the watch has a gap, and all are deleted in the next one
        kopf.stored = [job(4, "kept")]
        stream.send("ERROR", {"kind": "Status", "code": 410})
        stream = await kopf.stream()
        stream.send("ADDED", job(4, "kept"))
        stream.end_of_list(20)
        await kopf.until(lambda: len(jobs) == 1)
        kopf.stored = []
        stream.send("ERROR", {"kind": "Status", "code": 410})
        (await kopf.stream()).end_of_list(40)
        # then the store is empty, although no event reported it
        await kopf.until(lambda: len(jobs) == 0)
        assert "DELETED" not in {kind for kind, _ in kopf.events}
        comparing.cancel()


def test_a_failed_request_is_repeated_without_limit_with_increasing_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found = [next(pause) for pause in [iter(RECONNECT)] for _ in range(50)]
    assert found[0] <= 0.25
    assert all(4 <= seconds <= 8 for seconds in found[10:])


@pytest.mark.parametrize("code", [404, 410])
async def test_a_response_that_the_kind_or_the_version_is_gone_ends_in_a_list_and_not_the_process(code: int) -> None:
    """Given a CRD that is deleted and created again, or a version that has expired; then kopf lists the jobs again."""
    async with watching() as kopf:
        first = await kopf.stream()
        first.end_of_list(7)
        kopf.answer = lambda: code
        first.lines.put_nowait(b"")  # the server ends the stream
        before = kopf.requests.count(f"GET {JOBS}")
        await kopf.until(lambda: kopf.requests.count(f"GET {JOBS}") > before + 2)
        kopf.answer = lambda: 200
        again = await kopf.stream()
        assert "sendInitialEvents" in again.query
        again.send("ADDED", job(9))
        await kopf.until(lambda: len(kopf.events) == 1)


@pytest.mark.parametrize("code", [404, 410])
async def test_a_list_in_pages_of_a_kind_that_is_gone_is_begun_again(code: int) -> None:
    async with watching(streaming=False) as kopf:
        first = await kopf.stream()
        kopf.answer = lambda: code
        first.lines.put_nowait(b"")
        before = kopf.requests.count(f"GET {JOBS}")
        await kopf.until(lambda: kopf.requests.count(f"GET {JOBS}") > before + 2)
        kopf.answer = lambda: 200
        assert (await kopf.stream()).query["resourceVersion"] == "50"
