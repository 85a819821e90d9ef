"""Discovery of APIs that not every API server serves: an error of discovery or of a list does not mean absence."""

import logging
from functools import partial
from typing import Any

import pytest
from support.discovery import ABSENT, FORBIDDEN, SILENT, Answer, Discovery

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.desired.owned_kinds import POD_GROUPS
from tfdist.render.owned_kind import OwnedKind
from tfdist_operator.cache import kueue
from tfdist_operator.cache.owned_cache import served_version

SERVED: dict[str, Any] = {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}
OTHERS: dict[str, Any] = {"resources": [{"name": "priorityclasses"}]}
IS, NOT, UNKNOWN = Availability.SERVED, Availability.ABSENT, Availability.UNKNOWN


def pod_groups(*answers: Answer, kind: OwnedKind = POD_GROUPS[GangSystem.NATIVE], **options: Any) -> Discovery:
    return Discovery(partial(served_version, kind), *answers, **options)


def versions(*served: str) -> dict[str, Any]:
    return {"versions": [{"version": version} for version in served]}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a first list."""
    monkeypatch.setattr("tfdist_operator.cache.optional_api._SYNC_SECONDS", 0.0)


async def test_pod_groups_are_watched_while_they_are_served() -> None:
    # when
    cluster = await pod_groups(SERVED, SERVED, ABSENT, ABSENT, SERVED).run()
    # then
    assert cluster.published == [IS, UNKNOWN, NOT, IS]
    assert len(cluster.informers) == 2, "a watch that has ended is not started again"
    assert cluster.states[1] == (IS, True)
    assert cluster.states[4] == (NOT, False)


async def test_an_api_that_is_missing_for_a_moment_is_unknown_and_keeps_its_watch() -> None:
    cluster = await pod_groups(SERVED, ABSENT, SERVED, ABSENT, SERVED).run()
    assert cluster.published == [IS, UNKNOWN, IS, UNKNOWN, IS]
    assert len(cluster.informers) == 1
    assert cluster.informers[0].runs


@pytest.mark.parametrize("answer", [ABSENT, OTHERS], ids=["the group is absent", "the group has other resources"])
async def test_an_api_that_was_never_there_is_absent_at_the_first_answer(answer: Any) -> None:
    cluster = await pod_groups(answer).run()
    assert cluster.api.answered.is_set()
    assert cluster.published == [NOT]
    assert not cluster.informers


@pytest.mark.parametrize("error", [SILENT, FORBIDDEN], ids=["no answer", "403"])
async def test_an_error_of_discovery_changes_nothing(error: Any) -> None:
    cluster = await pod_groups(SERVED, error, error, SERVED).run()
    assert cluster.published == [IS]


async def test_the_first_answer_is_waited_for() -> None:
    cluster = await pod_groups(SILENT, SILENT).run()
    assert not cluster.api.answered.is_set()
    assert cluster.api.availability is UNKNOWN


async def test_a_controller_that_may_not_read_discovery_leads_without_knowing_and_logs_the_remedy_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        cluster = await pod_groups(FORBIDDEN, FORBIDDEN, FORBIDDEN).run()
    assert cluster.api.answered.is_set()
    assert cluster.api.availability is UNKNOWN
    assert [r.message for r in caplog.records if "system:discovery" in r.message] == [caplog.records[0].message]


@pytest.mark.usefixtures("impatient")
async def test_objects_that_cannot_be_listed_are_unknown_until_they_are(caplog: pytest.LogCaptureFixture) -> None:
    # given a first list that takes long, as without the right to list
    cluster = pod_groups(SERVED, SERVED, SERVED, listed=())
    # when
    with caplog.at_level(logging.WARNING):
        await cluster.run()
    # then
    assert cluster.api.answered.is_set()
    assert (cluster.api.availability, cluster.published) == (UNKNOWN, [])
    assert ["grant it list and watch" in r.message for r in caplog.records] == [True]
    assert len(cluster.informers) == 1


@pytest.mark.usefixtures("impatient")
async def test_a_list_that_takes_long_is_used_as_soon_as_it_has_come() -> None:
    # given
    cluster = pod_groups(SERVED, SERVED, listed=())
    # when it comes after discovery has answered again
    await cluster.run(list_late=True)
    # then
    assert cluster.published == [IS]


async def test_a_new_version_replaces_the_old_one_once_its_objects_are_in_the_cache() -> None:
    # when Kueue is upgraded
    old, both = versions("v1beta1"), versions("v1beta1", "v1beta2")
    cluster = await Discovery(kueue.served_version, old, old, both, both).run()
    # then
    assert cluster.versions == ["v1beta1", "v1beta2"]
    assert cluster.published == [IS, IS]
    assert [informer.runs for informer in cluster.informers] == [False, True]


@pytest.mark.usefixtures("impatient")
async def test_a_new_version_that_cannot_be_listed_leaves_the_old_one_in_use() -> None:
    old, both = versions("v1beta1"), versions("v1beta1", "v1beta2")
    cluster = await Discovery(kueue.served_version, old, both, both, listed=["v1beta1"]).run()
    assert cluster.versions == ["v1beta1"]
    assert [informer.runs for informer in cluster.informers] == [True, True]


async def test_a_rolled_back_version_ends_the_watch_that_was_to_replace_it() -> None:
    old, both = versions("v1beta1"), versions("v1beta1", "v1beta2")
    cluster = await Discovery(kueue.served_version, old, both, old, listed=["v1beta1"]).run()
    assert cluster.versions == ["v1beta1"]
    assert [informer.runs for informer in cluster.informers] == [True, False]


async def test_kueue_with_only_versions_of_the_future_is_there_and_unknown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        cluster = await Discovery(kueue.served_version, versions("v2"), versions("v2")).run()
    assert cluster.api.availability is UNKNOWN
    assert "kueue.x-k8s.io has only v2, and TFDist knows v1beta2, v1beta1; upgrade TFDist" in caplog.text


@pytest.mark.parametrize(
    ("system", "path"),
    [
        (GangSystem.NATIVE, "/apis/scheduling.k8s.io/v1beta1"),
        (GangSystem.VOLCANO, "/apis/scheduling.volcano.sh/v1beta1"),
        (GangSystem.COSCHEDULING, "/apis/scheduling.x-k8s.io/v1alpha1"),
    ],
)
async def test_each_pod_group_is_asked_for_in_its_own_group(system: GangSystem, path: str) -> None:
    cluster = await pod_groups(SERVED, kind=POD_GROUPS[system]).run()
    assert cluster.api.availability is IS
    assert set(cluster.asked) == {path}
