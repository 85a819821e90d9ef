"""The watch of kopf starts once the CRD exists, and every list of kopf is compared with the API server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tfdist_operator.kopf_adapter.job_watch import SETTLE_SECONDS, JobWatch
from tfdist_operator.kopf_adapter.kopf_session import KopfSession
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import ApiError, ForbiddenError, NotFoundError, RejectedError, UnavailableError
from tfdist_operator.kube.preflight import CrdMissing, await_crd, streams_lists

SERVED = {"resources": [{"name": "tfdistjobs"}, {"name": "tfdistjobs/status"}]}
NO_ANSWER = UnavailableError(0, "NoAnswer", "")
ABSENT = NotFoundError(404, "NotFound", "")


class Server:
    """Answers each request with the next of its answers, and repeats the last one."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked = 0

    def _next(self) -> Any:
        self.asked += 1
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def request(self, *_: object, **__: object) -> Any:
        return self._next()

    @asynccontextmanager
    async def stream(self, *_: object, **__: object) -> AsyncIterator[Any]:
        yield self._next()


def client(server: Server) -> ApiClient:
    return cast("ApiClient", server)


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)


async def test_an_api_server_without_the_crd_is_no_reason_to_wait_for_ever() -> None:
    with pytest.raises(CrdMissing, match=r"serves no tfdistjobs\.tfdist\.dev/v1: install the CRD"):
        await await_crd(client(Server(ABSENT)))


@pytest.mark.parametrize("before", [[], [ABSENT, {"resources": []}], [NO_ANSWER] * 50])
async def test_a_crd_that_appears_in_time_is_found_however_long_the_server_was_away(before: list[Any]) -> None:
    await await_crd(client(Server(*before, SERVED)))


@pytest.mark.parametrize(
    ("answers", "streams"),
    [
        ([None], True),
        ([RejectedError(422, "Invalid", "sendInitialEvents is forbidden")], False),
        ([NO_ANSWER, ForbiddenError(403, "Forbidden", ""), None], True),
    ],
)
async def test_lists_are_streamed_unless_the_server_rejects_that_permanently(answers: list[Any], streams: bool) -> None:
    assert await streams_lists(client(Server(*answers)), "") is streams


class Bench:
    """A watch whose lists a test announces."""

    def __init__(self, compare: Callable[[], Awaitable[None]]) -> None:
        self.slept: list[float] = []
        self.lists: asyncio.Queue[None] = asyncio.Queue()
        self.compare = compare
        self.watch = JobWatch(cast("KopfSession", self), self._compare, self._sleep)
        self.compared = 0

    async def wait_until_listed(self) -> None:
        await self.lists.get()
        self.lists.task_done()

    async def _compare(self) -> None:
        await self.compare()
        self.compared += 1

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def run(bench: Bench, lists: int) -> None:
    """Let kopf list the given number of times, and wait for the comparisons."""
    running = asyncio.create_task(bench.watch.run())
    for number in range(lists):
        assert bench.compared == number
        bench.lists.put_nowait(None)
        async with asyncio.timeout(60):
            while bench.compared == number:
                await asyncio.get_running_loop().run_in_executor(None, lambda: None)
    running.cancel()


async def test_the_first_list_is_compared_at_once_and_each_later_one_when_it_has_settled() -> None:
    async def agrees() -> None:
        pass

    bench = Bench(agrees)
    assert not bench.watch.synced.is_set()
    await run(bench, 3)
    assert bench.watch.synced.is_set()
    assert bench.slept == [SETTLE_SECONDS, SETTLE_SECONDS]


async def test_a_replica_is_not_in_sync_before_a_comparison_has_succeeded() -> None:
    failures: list[ApiError] = [NO_ANSWER, NO_ANSWER]

    async def fails_twice() -> None:
        assert not bench.watch.synced.is_set()
        if failures:
            raise failures.pop()

    bench = Bench(fails_twice)
    await run(bench, 1)
    assert len(bench.slept) == 2
