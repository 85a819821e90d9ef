"""Positions of Workloads in their queues, which no watch reports."""

from typing import Any

from tfdist_operator.cache.kueue import QueuePositions
from tfdist_operator.kube.errors import ApiError, NotFoundError

QUEUE = ("team", "a")
ABSENT = NotFoundError(404, "NotFound", "the server could not find the requested resource")


class Server:
    """Answers with the Workloads that wait, in their order, or with an error; counts the requests."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.error: ApiError | None = None
        self.answer: dict[str, Any] = {}
        self.paths: list[str] = []
        self.now = 0.0
        self.positions = QueuePositions(self, lambda: "v1beta2", lambda: self.now)  # type: ignore[arg-type]

    async def request(self, _method: str, path: str, **_: object) -> dict[str, Any]:
        self.paths.append(path)
        if self.error:
            raise self.error
        if self.answer:
            return self.answer
        return {"items": [{"metadata": {"name": n}, "positionInLocalQueue": i} for i, n in enumerate(self.waiting)]}


async def test_positions_count_from_one_and_one_request_serves_a_queue_for_a_minute() -> None:
    # given
    server = Server()
    server.waiting = ["first", "second"]
    # when
    found = [await server.positions.position(QUEUE, name) for name in ("second", "first", "second")]
    # then
    assert found == [2, 1, 2]
    assert server.paths == [
        "/apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/team/localqueues/a/pendingworkloads",
    ]
    # when a minute has passed
    server.now, server.waiting = 61.0, ["second"]
    # then
    assert await server.positions.position(QUEUE, "second") == 1


async def test_a_new_job_has_its_position_at_once() -> None:
    server = Server()
    server.waiting = ["first"]
    await server.positions.position(QUEUE, "first")
    server.waiting = ["first", "second"]
    assert await server.positions.position(QUEUE, "second") == 2


async def test_a_job_behind_the_last_position_that_is_read_has_none_and_costs_no_request() -> None:
    server = Server()
    server.waiting = [f"job-{i}" for i in range(100)]
    assert await server.positions.position(QUEUE, "last") is None
    assert await server.positions.position(QUEUE, "last") is None
    assert len(server.paths) == 1


async def test_an_answer_that_is_not_of_kueue_leaves_positions_unknown() -> None:
    server = Server()
    server.answer = {"items": [{"metadata": {}}]}
    assert await server.positions.position(QUEUE, "first") is None


async def test_without_the_api_positions_are_not_known_and_it_is_asked_every_ten_minutes() -> None:
    server = Server()
    server.error = ABSENT
    for server.now in (0.0, 61.0, 300.0):
        assert await server.positions.position(QUEUE, "first") is None
    assert len(server.paths) == 1
    server.now, server.error, server.waiting = 601.0, None, ["first"]
    assert await server.positions.position(QUEUE, "first") == 1
