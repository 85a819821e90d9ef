"""The client without a cluster: statuses of other versions, waiting for a phase, and the events of a job."""

import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, cast

import pytest
from support.stored_jobs import LATER, at, condition, counts, stored

from tfdist.api.status import JobPhase
from tfdist.client import events
from tfdist.client.api_server import ApiServer
from tfdist.client.backend import Backend
from tfdist.client.cluster import Cluster
from tfdist.client.errors import NotFound, WaitTimeout
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS, JobHandle
from tfdist.client.resources import Resources
from tfdist.outcome import read_status

ANNOTATION = "tfdist.dev/restartedAt"


def test_a_status_of_another_version_keeps_every_condition_that_this_one_reads() -> None:
    known = condition("Running", "True", "AllReplicasRunning", "all run")
    new = [condition("Frozen", "True", "PowerSaving", "cold"), {"type": "Running", "since": 5}]

    status = read_status({"conditions": [new[0], known, new[1], dict(new[0])], "phase": "Frozen", "attempt": 2})

    assert [each.message for each in status.conditions or ()] == ["all run"]
    assert (status.phase, status.attempt) == (None, 2)


def test_a_field_of_a_status_that_cannot_be_read_is_left_out_alone() -> None:
    status = read_status({"replicas": {"worker": {"desired": "many"}}, "progress": {"step": 5}})

    assert not status.replicas
    assert status.progress
    assert status.progress.step == 5


class Watched(Resources[Job, JobHandle]):
    """Jobs whose watch yields the given ones, and then nothing more."""

    def __init__(self, *jobs: Job) -> None:
        super().__init__(cast("Backend", None), "team", JOBS)
        self._jobs = jobs

    def watch(self, name: str, **_: float | None) -> Iterator[Job]:
        yield from (job for job in self._jobs if job.name == name)


def handle(*jobs: Job) -> JobHandle:
    """Return a handle of the first job, which is then seen as each of the jobs."""
    return Watched(*jobs).handle(jobs[0])


def restarted(phase: str, requested: str, acted_on: str | None) -> Job:
    """Return a job with a request for a restart, and the one that the controller last acted on."""
    job = stored("fashion", {"phase": phase} | ({"restartedAt": acted_on} if acted_on else {}))
    return Job({**job.manifest, "metadata": {**job.manifest["metadata"], "annotations": {ANNOTATION: requested}}})


def test_a_wait_after_a_request_for_a_restart_is_for_the_next_attempt_and_not_the_running_one() -> None:
    before = restarted("Running", "2030-01-01T00:00:01Z", None)
    restarting = restarted("Restarting", "2030-01-01T00:00:01Z", "2030-01-01T00:00:01Z")
    after = restarted("Running", "2030-01-01T00:00:01Z", "2030-01-01T00:00:01Z")

    assert handle(before, restarting, after).wait_for([JobPhase.RUNNING]) is after
    with pytest.raises(WaitTimeout):
        handle(before, restarting).wait_for([JobPhase.RUNNING], timeout=0)


class Events:
    """An API server with the given events."""

    def __init__(self, *found: dict[str, Any]) -> None:
        self._found = found

    def request(self, *_: Any, query: dict[str, Any]) -> dict[str, Any]:
        assert query["limit"]
        return {"items": self._found, "metadata": {"resourceVersion": "5"}}


JOB = stored("fashion", {"replicas": {"worker": counts(1, 1)}}, age=600)


def stored_event(kind: str, name: str, seconds: float = 60, **fields: Any) -> dict[str, Any]:
    """Return an event as the API server has it, observed so many seconds ago."""
    about = {"kind": kind, "name": name} | ({"uid": JOB.uid} if kind == "TFDistJob" else {})
    metadata = {"uid": f"{kind}-{name}", "resourceVersion": "1", "creationTimestamp": at(seconds)}
    return {"metadata": metadata, "involvedObject": about, "reason": "R", "lastTimestamp": at(seconds)} | fields


class Stream:
    """An API server whose list of events grows by those that its watch reports."""

    def __init__(self, first: dict[str, Any], *parts: list[bytes]) -> None:
        self._found = [first]
        self._parts = list(parts)

    def request(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"items": self._found, "metadata": {"resourceVersion": "5"}}

    @contextlib.contextmanager
    def stream(self, _: str, query: dict[str, Any]) -> Iterator[list[bytes]]:
        assert query["watch"]
        yield self._parts.pop(0)


def changed(kind: str, event: dict[str, Any]) -> bytes:
    """Return a notification of a watch."""
    return json.dumps({"type": kind, "object": event}).encode() + b"\n"


def test_followed_events_are_yielded_once_though_each_new_list_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist.client.events.time.sleep", lambda _: None)
    old, new = stored_event("Pod", "fashion-worker-0"), stored_event("Pod", "fashion-worker-1")
    repeated = new | {"metadata": new["metadata"] | {"resourceVersion": "2"}, "count": 2}
    other = stored_event("Pod", "other-worker-0")
    line = changed("ADDED", new)
    server = Stream(
        old,
        [line[:9], line[9:] + changed("ADDED", other), changed("ERROR", {"code": 410}), changed("ADDED", repeated)],
        [changed("ADDED", new), changed("BOOKMARK", {}), changed("DELETED", old), changed("MODIFIED", repeated)],
    )
    exists = iter([True, False])

    found = list(events.follow(cast("ApiServer", server), JOB, lambda: next(exists)))

    assert [(each.object, each.count) for each in found] == [
        ("pod/fashion-worker-0", 1),
        ("pod/fashion-worker-1", 1),
        ("pod/fashion-worker-1", 2),
    ]


def read(*found: dict[str, Any]) -> list[events.JobEvent]:
    return events.read(cast("ApiServer", Events(*found)), JOB)


@pytest.mark.parametrize(
    "name", ["fashion-worker-0", "fashion-chief-0-r3", "fashion-evaluator-0", "fashion-tensorboard-6b7f-x2x5z"]
)
def test_events_of_the_pods_of_a_job_are_its_own(name: str) -> None:
    assert [each.object for each in read(stored_event("Pod", name))] == [f"pod/{name}"]


@pytest.mark.parametrize(
    "other",
    [
        stored_event("Pod", "fashion-2-worker-0"),
        stored_event("Pod", "old-fashion-worker-0"),
        stored_event("Pod", "fashion-worker-0-worker-0"),
        stored_event("Pod", "fashion-tensorboard-worker-0"),
        stored_event("Pod", "fashion-worker-0", 601),
        stored_event("Service", "fashion"),
        stored_event("TFDistJob", "fashion", involvedObject={"kind": "TFDistJob", "name": "fashion", "uid": "other"}),
    ],
)
def test_events_of_others_and_from_before_the_job_are_left_out(other: dict[str, Any]) -> None:
    assert read(other) == []


def test_events_are_ordered_by_their_last_observation_and_counted_also_as_a_series() -> None:
    series: dict[str, Any] = {
        "series": {"count": 7, "lastObservedTime": at(5)},
        "eventTime": at(50),
        "lastTimestamp": None,
    }

    first, second = read(
        stored_event("Pod", "fashion-worker-0", **series), stored_event("TFDistJob", "fashion", 30, count=2)
    )

    assert (first.object, first.count) == ("job", 2)
    assert (second.count, second.first, second.last) == (7, LATER - timedelta(seconds=50), LATER - timedelta(seconds=5))


def test_events_within_a_second_are_ordered_by_their_time_of_day_to_the_microsecond() -> None:
    second = at(60).removesuffix("Z")
    first = stored_event("Pod", "fashion-worker-0", lastTimestamp=None, eventTime=f"{second}.250000Z")
    last = stored_event("TFDistJob", "fashion", 60, eventTime=f"{second}.500000Z")

    assert [each.object for each in read(last, first)] == ["pod/fashion-worker-0", "job"]


def test_an_event_without_optional_fields_has_the_time_of_its_creation() -> None:
    (found,) = read(stored_event("Pod", "fashion-worker-0", 20, lastTimestamp=None, message=None, reason=None))

    assert (found.type, found.message, found.count) == ("Normal", "", 1)
    assert found.first == found.last == LATER - timedelta(seconds=20)


def test_a_message_of_an_event_is_one_printable_line() -> None:
    (found,) = read(stored_event("Pod", "fashion-worker-0", message="a\n\033[2Jb"))

    assert found.message.isprintable()


class Pods:
    """An API server that has the given lists of pods, one after the other."""

    def __init__(self, *lists: list[dict[str, Any]]) -> None:
        self.lists = list(lists)

    def items(self, path: str, query: dict[str, Any]) -> list[dict[str, Any]]:
        assert path == "/api/v1/namespaces/team/pods"
        assert query == {"labelSelector": "tfdist.dev/job=fashion"}
        return self.lists.pop(0)


class Stored(Resources[Job, JobHandle]):
    """Jobs of which one is stored, or none."""

    def __init__(self, job: Job | None, pods: Pods) -> None:
        super().__init__(Cluster(cast("ApiServer", pods), "team"), "team", JOBS)
        self._job = job

    def get(self, name: str) -> Job:
        if self._job is None:
            raise NotFound(name)
        return self._job


def test_the_wait_for_a_deletion_ends_with_the_last_pod_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist.client.handle.time.sleep", lambda _: None)
    owned = {"metadata": {"name": "fashion-worker-0", "ownerReferences": [{"uid": JOB.uid}]}}
    successor = {"metadata": {"name": "fashion-worker-0-r1", "ownerReferences": [{"uid": "another"}]}}
    pods = Pods([owned, successor], [successor])

    Stored(None, pods).handle(JOB).wait_deleted()

    assert pods.lists == []


def test_a_wait_for_a_deletion_that_is_too_short_names_what_is_left() -> None:
    with pytest.raises(WaitTimeout, match='after 0 s there is still job "fashion"'):
        Stored(JOB, Pods()).handle(JOB).wait_deleted(timeout=0)


def test_a_handle_does_not_change_another_job_of_the_same_name() -> None:
    # given a handle, and another job that has replaced its own
    successor = Job({**JOB.manifest, "metadata": {**JOB.manifest["metadata"], "uid": "another"}})
    handle = Stored(successor, Pods()).handle(JOB)

    # when it is told to change the job, then no request for a change is sent: this server answers none
    for change in (handle.suspend, handle.resume, handle.restart, lambda: handle.scale(2)):
        with pytest.raises(NotFound, match="job fashion was deleted; another one has its name now"):
            change()
