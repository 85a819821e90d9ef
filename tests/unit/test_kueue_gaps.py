"""A job that was given to a queue of Kueue never starts outside of it, and never leaves it, whatever its API does.

Each gap is what the API server answers to discovery, and whether the objects can be listed; the controller's discovery
decides what a reconcile sees of the simulated Kueue.
"""

from dataclasses import dataclass
from typing import Any

import pytest
from support.discovery import ABSENT, FORBIDDEN, SILENT, Answer, Discovery
from support.factories import created, deleted, event_reasons, manifest, pod
from support.simulated_kueue import BOTH, Story

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.planner import Plan
from tfdist.render.fingerprint import fingerprint
from tfdist.validation import parse
from tfdist_operator.cache import kueue

IS, NOT, UNKNOWN = Availability.SERVED, Availability.ABSENT, Availability.UNKNOWN
OLD: dict[str, Any] = {"versions": [{"version": "v1beta1"}]}
NEW: dict[str, Any] = {"versions": [{"version": "v1beta1"}, {"version": "v1beta2"}]}
BY_LABEL: dict[str, Any] = {"labels": {"kueue.x-k8s.io/queue-name": "team-a"}, "scheduling": {}}
BY_QUEUE: dict[str, Any] = {"labels": {}, "scheduling": {"queue": "team-a"}}
BY_GANG: dict[str, Any] = {"labels": {}, "scheduling": {"gang": "Kueue", "queue": "team-a"}}
HOUR = 3600


@dataclass(frozen=True)
class Gap:
    """What happens to Kueue's API, and whether a reconcile then knows that it is served."""

    answers: tuple[Answer, ...]
    found: Availability
    listed: tuple[str, ...] = ("v1beta1", "v1beta2")


GAPS = {
    "no answer to a new controller": Gap((SILENT, SILENT), UNKNOWN),
    "403 on discovery by a new controller": Gap((FORBIDDEN, FORBIDDEN), UNKNOWN),
    "403 on discovery after it was served": Gap((OLD, OLD, FORBIDDEN), IS),
    "404 on discovery after it was served": Gap((OLD, OLD, ABSENT), UNKNOWN),
    "404 again, as when it is uninstalled": Gap((OLD, OLD, ABSENT, ABSENT), NOT),
    "404 for a new controller": Gap((ABSENT,), NOT),
    "a new version is served": Gap((OLD, OLD, NEW, NEW), IS),
    "a new version is served and cannot be listed": Gap((OLD, OLD, NEW, NEW), IS, listed=("v1beta1",)),
    "the first list fails, takes long or is forbidden": Gap((NEW, NEW, NEW), UNKNOWN, listed=()),
    "only a version of the future is served": Gap(({"versions": [{"version": "v9"}]},), UNKNOWN),
}
EVERY_GAP = pytest.mark.parametrize("gap", GAPS.values(), ids=GAPS.keys())
EVERY_REQUEST = pytest.mark.parametrize("request_", [BY_LABEL, BY_QUEUE, BY_GANG], ids=["label", "queue", "gang"])


class Job:
    """A job with a start deadline of a minute that requests a queue in one of three ways."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.story = Story(scheduling=request["scheduling"], runPolicy={"startDeadlineSeconds": 60})
        made = manifest(**self.story.job.spec)
        made["metadata"]["labels"] = request["labels"]
        self._job = parse(made)
        self._seen: dict[str, Any] = {}

    async def meet(self, gap: Gap, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the controller see Kueue as discovery does in a gap."""
        monkeypatch.setattr("tfdist_operator.cache.optional_api._SYNC_SECONDS", 0.0)
        found = (await Discovery(kueue.served_version, *gap.answers, listed=gap.listed).run()).api
        assert found.availability is gap.found
        systems = {GangSystem.VOLCANO: IS, GangSystem.KUEUE: found.availability}
        self._seen = {"systems": systems} | ({} if found.version else {"kueue": None})

    def end_gap(self) -> None:
        """Let the controller see Kueue again."""
        self._seen = {}

    def reconcile(self, pods: Any = "", after: float = 0) -> Plan:
        return self.story.reconcile(pods, after, job=self._job, template=fingerprint(self._job), **self._seen)

    def admitted(self) -> "Job":
        """Return the job after its admission, with all replicas running."""
        self.reconcile()
        self.story.kueue.admit()
        self.reconcile()
        self.reconcile(BOTH)
        return self

    @property
    def status(self) -> dict[str, Any]:
        return self.story.job.status


@EVERY_GAP
@EVERY_REQUEST
async def test_a_job_that_waits_in_its_queue_waits_through_a_gap_without_a_deadline(
    gap: Gap, request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    job = Job(request_)
    job.reconcile()
    job.story.kueue.wait("insufficient quota")
    job.reconcile()
    # when
    await job.meet(gap, monkeypatch)
    assert [created(job.reconcile(after=after)) for after in (0, HOUR)] == [[], []]
    # then
    assert (job.status["phase"], job.status["scheduling"]["system"]) == ("Queued", "Kueue")
    # when the gap ends
    job.end_gap()
    assert created(job.reconcile(after=HOUR)) == []
    assert job.story.job.message("Suspended") == "queue team-a: insufficient quota"
    job.story.kueue.admit()
    assert created(job.reconcile()) == ["worker-0", "worker-1"]


@EVERY_GAP
@EVERY_REQUEST
async def test_a_job_that_runs_goes_on_through_a_gap_and_is_evicted_after_it(
    gap: Gap, request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    job = Job(request_).admitted()
    # when
    await job.meet(gap, monkeypatch)
    assert [deleted(job.reconcile(BOTH, after)) for after in (0, HOUR)] == [[], []]
    # then
    assert (job.status["phase"], job.status["scheduling"]) == ("Running", {"system": "Kueue", "queue": "team-a"})
    # when Kueue evicts it after the gap
    job.end_gap()
    assert deleted(job.reconcile(BOTH)) == []
    job.story.kueue.evict()
    assert deleted(job.reconcile(BOTH)) == ["worker-0", "worker-1"]


@EVERY_GAP
@EVERY_REQUEST
async def test_a_new_job_waits_for_an_admission_unless_kueue_is_known_to_be_absent(
    gap: Gap, request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    job = Job(request_)
    # when
    await job.meet(gap, monkeypatch)
    plans = [job.reconcile(), job.reconcile()]
    # then
    starts = gap.found is NOT and request_ is not BY_GANG
    assert bool(created(plans[0])) == starts
    if starts:
        expected = "None" if request_ is BY_LABEL else "Volcano"
        assert job.status["scheduling"]["system"] == expected, "as without Kueue"
        return
    assert job.status["phase"] == "Queued"
    # when nothing has changed for an hour
    assert created(job.reconcile(after=HOUR)) == []
    assert job.status["phase"] == "Queued"
    # then Kueue admits it after the gap
    job.end_gap()
    job.reconcile()
    job.story.kueue.admit()
    assert created(job.reconcile()) == ["worker-0", "worker-1"]


async def test_an_eviction_that_has_begun_goes_on_in_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    job = Job(BY_QUEUE).admitted()
    job.story.kueue.evict()
    job.reconcile(BOTH)
    # when the controller has not deleted the second pod yet
    await job.meet(GAPS["404 on discovery after it was served"], monkeypatch)
    todo = job.reconcile([pod("worker-0", deleting=True), pod("worker-1")])
    # then
    assert (deleted(todo), event_reasons(todo)) == (["worker-1"], [])
    assert job.status["phase"] == "Suspending"


@EVERY_REQUEST
async def test_the_message_of_a_job_that_waits_in_a_gap_names_the_api_that_cannot_be_read_and_where_the_cause_is(
    request_: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(request_)
    await job.meet(GAPS["the first list fails, takes long or is forbidden"], monkeypatch)
    job.reconcile()
    text = job.story.job.message("Suspended")
    assert "its API kueue.x-k8s.io cannot be read now" in text
    assert "see the controller's log for the cause" in text
    assert job.reconcile().status is None, "it is written once"


async def test_a_new_job_with_a_queue_falls_back_only_once_kueue_is_known_to_be_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given
    job = Job(BY_QUEUE)
    await job.meet(GAPS["404 on discovery after it was served"], monkeypatch)
    assert created(job.reconcile()) == []
    assert "scheduling" not in job.status, "it has no Workload"
    # when
    await job.meet(GAPS["404 again, as when it is uninstalled"], monkeypatch)
    # then
    assert created(job.reconcile()) == ["worker-0", "worker-1"]
    assert job.status["scheduling"]["system"] == "Volcano"


async def test_a_job_of_volcanos_queue_restarts_in_it_while_it_is_not_known_whether_kueue_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given
    job = Job(BY_QUEUE)
    await job.meet(GAPS["404 for a new controller"], monkeypatch)
    job.reconcile()
    job.reconcile(BOTH)
    # when
    await job.meet(GAPS["403 on discovery by a new controller"], monkeypatch)
    job.reconcile("worker-0:R worker-1:F")
    # then
    assert created(job.reconcile(after=30)) == ["worker-0-r1", "worker-1-r1"]


async def test_a_labelled_job_that_runs_without_kueue_goes_on_when_kueue_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # given
    job = Job(BY_LABEL)
    await job.meet(GAPS["404 for a new controller"], monkeypatch)
    job.reconcile()
    job.reconcile(BOTH)
    # when
    job.end_gap()
    todo = job.reconcile(BOTH)
    # then
    assert (deleted(todo), todo.workload) == ([], None)


async def test_a_job_that_an_earlier_version_let_leave_kueue_returns_to_it() -> None:
    # given an admitted job whose status has no longer Kueue
    job = Job(BY_LABEL).admitted()
    job.status["scheduling"] = {"system": "None"}
    # when
    job.story.kueue.evict()
    # then
    assert deleted(job.reconcile(BOTH)) == ["worker-0", "worker-1"]
    assert job.status["scheduling"]["system"] == "Kueue"
