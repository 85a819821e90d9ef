"""Discovery of PodGroups: they are watched while the API server serves them, and jobs learn of each change."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tfdist.api.gang_system import GangSystem
from tfdist.render.owned_kinds import POD_GROUPS, OwnedKind
from tfdist_operator.cache.optional_api import OptionalApi
from tfdist_operator.cache.owned_watch import served_version
from tfdist_operator.kube.errors import ApiError, NotFound, Unavailable

NATIVE = POD_GROUPS[GangSystem.NATIVE]
SERVED = {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}
OTHERS = {"resources": [{"name": "priorityclasses"}]}
ABSENT = NotFound(404, "NotFound", "the server could not find the requested resource")
SILENT = Unavailable(503, "ServiceUnavailable", "no answer")


class Watched:
    """An informer of which the first list comes at once, or never."""

    what = "podgroups"

    def __init__(self, *, listed: bool) -> None:
        self.synced = asyncio.Event()
        self._listed = listed
        self.runs = False

    async def run(self) -> None:
        self.runs = True
        if self._listed:
            self.synced.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.runs = False


class Cluster:
    """An API server that gives its answers in order, and then none; `published` has the state after each change."""

    def __init__(self, *answers: dict[str, Any] | ApiError, listed: bool = True, kind: OwnedKind = NATIVE) -> None:
        self._answers = list(answers)
        self._listed = listed
        self._exhausted = asyncio.Event()
        self.informers: list[Watched] = []
        self.asked: list[str] = []
        self.published: list[bool] = []
        self.states: list[tuple[bool, bool]] = []
        discover = partial(served_version, kind)
        self.watch = OptionalApi(self, "pod groups", discover, self._make, self._changed, self._sleep)  # type: ignore[arg-type]

    async def request(self, _method: str, path: str, **_: object) -> dict[str, Any]:
        self.asked.append(path)
        self.states.append((self.watch.served, any(informer.runs for informer in self.informers)))
        if not self._answers:
            self._exhausted.set()
            await asyncio.Event().wait()
        answer = self._answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    def _make(self, _version: str) -> Sequence[Watched]:
        self.informers.append(Watched(listed=self._listed))
        return self.informers[-1:]

    def _changed(self) -> None:
        self.published.append(self.watch.served)

    async def _sleep(self, _seconds: float) -> None:
        await asyncio.sleep(0)

    async def run(self) -> None:
        """Run until the answers are used up."""
        task = asyncio.create_task(self.watch.run())
        await self._exhausted.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not task.done()
        task.cancel()


async def test_pod_groups_are_watched_while_they_are_served() -> None:
    # given
    cluster = Cluster(SERVED, SERVED, ABSENT, ABSENT, SERVED)
    # when
    await cluster.run()
    # then
    assert cluster.published == [True, False, True]
    assert len(cluster.informers) == 2, "a watch that has ended is not started again"
    assert cluster.states[1] == (True, True)
    assert cluster.states[3] == (False, False)


@pytest.mark.parametrize("answer", [ABSENT, OTHERS], ids=["the group is absent", "the group has other resources"])
async def test_jobs_are_reconciled_without_pod_groups_where_there_are_none(answer: Any) -> None:
    cluster = Cluster(answer)
    await cluster.run()
    assert cluster.watch.checked.is_set()
    assert not cluster.watch.served
    assert not cluster.informers


async def test_nothing_changes_while_the_api_server_does_not_answer() -> None:
    cluster = Cluster(SERVED, SILENT, SILENT, SERVED)
    await cluster.run()
    assert cluster.published == [True]


async def test_the_first_answer_is_waited_for() -> None:
    cluster = Cluster(SILENT, SILENT)
    await cluster.run()
    assert not cluster.watch.checked.is_set()


async def test_without_the_right_to_list_them_gangs_are_scheduled_without_pod_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given a first list that never comes
    monkeypatch.setattr("tfdist_operator.cache.optional_api._SYNC_SECONDS", 0.0)
    cluster = Cluster(SERVED, listed=False)
    # when
    await cluster.run()
    # then
    assert cluster.watch.checked.is_set()
    assert not cluster.watch.served


@pytest.mark.parametrize(
    ("system", "path"),
    [
        (GangSystem.NATIVE, "/apis/scheduling.k8s.io/v1beta1"),
        (GangSystem.VOLCANO, "/apis/scheduling.volcano.sh/v1beta1"),
        (GangSystem.COSCHEDULING, "/apis/scheduling.x-k8s.io/v1alpha1"),
    ],
)
async def test_each_pod_group_is_asked_for_in_its_own_group(system: GangSystem, path: str) -> None:
    cluster = Cluster(SERVED, kind=POD_GROUPS[system])
    await cluster.run()
    assert cluster.watch.served
    assert set(cluster.asked) == {path}
