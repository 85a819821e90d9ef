"""One look at a job and its requests: which are made, which are left out, and what a refusal comes to."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from prometheus_client import REGISTRY
from support.factories import NOW, SETTINGS, UID, condition, manifest
from support.factories import failure_in_place as failure
from support.factories import launchers_tell as tells
from support.fake_api import FakeApi, Refusal, served

from tfdist_operator import reconcile
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.leftovers import Leftovers
from tfdist_operator.kube.memory import Memory
from tfdist_operator.kube.objects import Objects
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.kube.queue import KeyedQueue
from tfdist_operator.reconcile import Reconciler
from tfdist_operator.reports import Reports
from tfdist_operator.rhythm import Rhythm

KEY = Key("team", "fashion")
JOB = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs/fashion"
SERVICE = "/api/v1/namespaces/team/services/fashion"
POLICY = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies/fashion"
NO_ROLE = 'pods is forbidden: User "system:serviceaccount:x:y" cannot create resource "pods" in API group ""'
SUCCEEDED = {"type": "Succeeded", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z", "reason": "Done"}
ENDED = {"conditions": [SUCCEEDED], "completionTime": "2029-01-01T00:00:00Z"}


class Bench:
    """A reconciler with its stores, before a fake API server."""

    def __init__(self, api: FakeApi, objects: Objects, reports: Reports) -> None:
        self.api = api
        self._objects = objects
        self._reports = reports
        self.start()

    def start(self) -> None:
        """Begin as a new process, which knows nothing."""
        self.jobs, self.queue = JobStore(), KeyedQueue[Key]()
        self.pods = PodStore(self.queue.add)
        leftovers, memory = Leftovers(self._objects, [""]), Memory()
        self.memory = memory
        rhythm, stores = Rhythm(2, 10), (self.jobs, self.pods, self.queue, self._objects)
        self._reconciler = Reconciler(*stores, SETTINGS, memory, self._reports, leftovers, rhythm, lambda: NOW)
        if JOB in self.api.objects:
            self.jobs.take(self.api.objects[JOB])
        for path, found in self.api.objects.items():
            if "/pods/" in path:
                self.pods.put(found)

    def job(self, **content: object) -> None:
        """Let there be a job."""
        made = manifest() | content
        made["metadata"] |= {"uid": UID, "generation": 1}
        self.jobs.take(self.api.put(JOB, made))

    async def look(self) -> bool:
        """Look once and return whether that succeeded."""
        return await self._reconciler.reconcile(KEY)

    def run(self, *replicas: str) -> None:
        """Let the containers of pods run."""
        for replica in replicas:
            path = f"/api/v1/namespaces/team/pods/fashion-{replica}"
            self.pods.put(self.api.put(path, self.api.objects[path] | {"status": {"phase": "Running"}}))

    def fail(self, replica: str) -> None:
        """Let the container of a pod end with 137."""
        path = f"/api/v1/namespaces/team/pods/fashion-{replica}"
        ended = {"name": "tensorflow", "state": {"terminated": {"exitCode": 137, "finishedAt": "2030-01-02T03:04:00Z"}}}
        status = {"phase": "Failed", "containerStatuses": [ended]}
        self.pods.put(self.api.put(path, self.api.objects[path] | {"status": status}))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with served() as (api, client):
        reports = Reports()
        yield Bench(api, Objects(client, "test"), reports)
        await reports.close()


def refusing_pods(message: str) -> Refusal:
    """Refuse to create pods."""
    refusal = (403, "Forbidden", message, "")
    return lambda method, path: refusal if method == "POST" and path.endswith("/pods") else None


async def test_a_new_jobs_objects_are_created_with_one_request_each(bench: Bench) -> None:
    bench.job()
    assert await bench.look()
    assert bench.api.requests("services") == ["POST"]
    assert bench.api.requests("networkpolicies") == ["POST"]
    assert bench.api.requests("pods") == ["POST", "POST"]


async def test_a_restart_changes_the_service_and_leaves_the_network_policy(bench: Bench) -> None:
    bench.job()
    await bench.look()
    bench.fail("worker-1")
    assert await bench.look()
    assert bench.api.requests("services") == ["POST", "PATCH"]
    assert bench.api.objects[SERVICE]["spec"]["selector"]["tfdist.dev/address-generation"] == "1"
    assert bench.api.requests("networkpolicies") == ["POST"]


async def test_a_process_that_takes_over_makes_the_objects_what_they_are_to_be(bench: Bench) -> None:
    bench.job()
    await bench.look()
    bench.start()
    bench.fail("worker-1")
    assert await bench.look()
    assert bench.api.objects[SERVICE]["spec"]["selector"]["tfdist.dev/address-generation"] == "1"


async def test_a_service_that_is_not_the_jobs_is_left_alone_and_told_of(bench: Bench) -> None:
    theirs = bench.api.put(SERVICE, {"metadata": {"labels": {"app": "web"}}, "spec": {"selector": {"app": "web"}}})
    bench.job()
    assert not await bench.look()
    await bench.look()
    assert bench.api.objects[SERVICE] == theirs
    message = condition(bench.api.objects[JOB]["status"], "PodsReady")["message"]
    assert "a Service team/fashion is there that is not this job's" in message


async def test_what_roles_refuse_for_a_moment_is_repeated_and_not_told(bench: Bench) -> None:
    bench.job()
    bench.api.refuse = refusing_pods(NO_ROLE)
    assert not await bench.look()
    assert not await bench.look()
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "Starting"
    bench.api.refuse = lambda _method, _path: None
    assert await bench.look()
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "Starting"


async def test_what_roles_go_on_refusing_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "_NOT_ALLOWED_SECONDS", -1.0)
    bench.job()
    bench.api.refuse = refusing_pods(NO_ROLE)
    await bench.look()
    await bench.look()
    said = condition(bench.api.objects[JOB]["status"], "PodsReady")
    assert (said["reason"], "cannot create resource" in said["message"]) == ("CreationRefused", True)


async def test_what_a_quota_refuses_is_told_at_once(bench: Bench) -> None:
    bench.job()
    bench.api.refuse = refusing_pods('pods "fashion-worker-0" is forbidden: exceeded quota: small')
    await bench.look()
    await bench.look()
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "CreationRefused"


async def test_a_namespace_that_is_being_deleted_costs_one_try_for_each_look(bench: Bench) -> None:
    bench.job()
    refusal = (403, "Forbidden", "namespace team is being terminated", "NamespaceTerminating")
    bench.api.refuse = lambda method, _path: refusal if method == "POST" else None
    assert await bench.look()
    assert await bench.look()
    assert bench.api.requests("services") == ["POST", "POST"]
    assert bench.api.requests("pods") == []
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "Starting"


async def test_jobs_that_ended_long_ago_cost_a_new_process_one_question_for_all(bench: Bench) -> None:
    bench.job(status=ENDED)
    assert await bench.look()
    assert await bench.look()
    assert bench.api.asked == ["GET /api/v1/services", "GET /apis/networking.k8s.io/v1/networkpolicies"]


async def test_what_a_killed_process_left_of_an_ended_job_is_removed(bench: Bench) -> None:
    bench.job()
    await bench.look()
    for path in [p for p in bench.api.objects if "/pods/" in p]:
        del bench.api.objects[path]
    bench.job(status=ENDED)
    bench.start()
    assert await bench.look()
    assert bench.api.requests("services")[-1] == "DELETE"


async def test_what_launchers_tell_is_stored_and_told_of_once(bench: Bench) -> None:
    bench.job()
    await bench.look()
    bench.run("worker-0", "worker-1")
    await bench.look()
    bench.memory.of(KEY, UID).report = tells(failure(1))
    bench.api.asked.clear()
    assert await bench.look()
    assert (bench.api.requests("status"), bench.api.requests("events")) == (["PATCH"], ["POST"])
    assert bench.api.objects[JOB]["status"]["failures"][0]["round"] == 0
    assert await bench.look()
    assert len(bench.api.asked) == 2


async def test_an_invalid_job_of_another_controller_is_left_alone(bench: Bench) -> None:
    bench.job(spec={"worker": {"replicas": 2}, "runPolicy": {"managedBy": "example.com/other"}, "tensorBoard": {}})
    assert await bench.look()
    assert bench.api.asked == []


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_the_end_of_a_job_is_measured_once_with_its_age(bench: Bench) -> None:
    ended, seconds = (f"tfdist_job_duration_seconds_{what}" for what in ("count", "sum"))
    before = counted(ended, result="Failed"), counted(seconds, result="Failed")
    bench.job(spec=manifest(runPolicy={"backoffLimit": 0})["spec"])
    bench.jobs.take(bench.api.put(JOB, aged(bench.api.objects[JOB], "2030-01-02T03:00:05Z")))
    await bench.look()
    bench.fail("worker-1")
    await bench.look()
    assert bench.api.objects[JOB]["status"]["phase"] == "Failed"
    await bench.look()
    bench.start()
    await bench.look()
    after = counted(ended, result="Failed"), counted(seconds, result="Failed")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 240)


def aged(job: dict[str, Any], created: str) -> dict[str, Any]:
    """Return a job that was created at that time."""
    return job | {"metadata": job["metadata"] | {"creationTimestamp": created}}


async def test_a_restart_is_counted_once_though_a_new_process_tells_of_it_again(bench: Bench) -> None:
    before = counted("tfdist_restarts_total", reason="Crash")
    bench.job()
    await bench.look()
    bench.fail("worker-1")
    await bench.look()
    bench.start()
    await bench.look()
    assert counted("tfdist_restarts_total", reason="Crash") - before == 1
