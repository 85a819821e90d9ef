"""One reconcile of a job: the requests that it sends, those that it omits, and the effect of a rejection."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY
from support.bench import JOB, KEY, SERVICE, Bench, bench_served, rejecting_pods
from support.factories import CHECKPOINT, FIRST_ATTEMPT, UID, condition, launcher_report, manifest
from support.factories import failure_in_place as failure

from tfdist.contract import Restarts
from tfdist.observed.job_view import JobView
from tfdist.planner import Plan, plan
from tfdist.render.installation import Installation
from tfdist_operator.reconcile import creation, reconciler

NO_ROLE = 'pods is forbidden: User "system:serviceaccount:x:y" cannot create resource "pods" in API group ""'
SUCCEEDED = {"type": "Succeeded", "status": "True", "lastTransitionTime": "2029-01-01T00:00:00Z", "reason": "Done"} | {
    "message": "done",
    "observedGeneration": 1,
}
ENDED = {"conditions": [SUCCEEDED], "completionTime": "2029-01-01T00:00:00Z"}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


async def test_a_new_jobs_objects_are_created_with_one_request_each(bench: Bench) -> None:
    bench.job()
    assert await bench.reconcile()
    assert bench.api.requests("services") == ["POST"]
    assert bench.api.requests("networkpolicies") == ["POST"]
    assert bench.api.requests("pods") == ["POST", "POST"]


async def test_a_restart_changes_the_service_and_leaves_the_network_policy(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    bench.fail("worker-1")
    assert await bench.reconcile()
    assert bench.api.requests("services") == ["POST", "PATCH"]
    assert bench.api.objects[SERVICE]["spec"]["selector"]["tfdist.dev/address-generation"] == "1"
    assert bench.api.requests("networkpolicies") == ["POST"]


async def test_a_new_leader_updates_the_objects_to_the_desired_state(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    bench.start()
    bench.fail("worker-1")
    assert await bench.reconcile()
    assert bench.api.objects[SERVICE]["spec"]["selector"]["tfdist.dev/address-generation"] == "1"


async def test_a_service_that_the_job_does_not_own_is_not_changed_and_reported(bench: Bench) -> None:
    theirs = bench.api.put(SERVICE, {"metadata": {"labels": {"app": "web"}}, "spec": {"selector": {"app": "web"}}})
    bench.job()
    assert not await bench.reconcile()
    await bench.reconcile()
    assert bench.api.objects[SERVICE] == theirs
    message = condition(bench.api.objects[JOB]["status"], "PodsReady")["message"]
    assert "a Service team/fashion is there that is not this job's" in message


async def test_only_a_404_for_the_job_itself_means_that_it_is_deleted(bench: Bench) -> None:
    """Given a Service that exists at its creation and not at its change; then the job is kept."""
    bench.job()
    taken = (409, "AlreadyExists", "", "")
    bench.api.reject = lambda method, path: taken if method == "POST" and path.endswith("/services") else None
    assert not await bench.reconcile()
    assert bench.jobs.get(KEY) is not None
    bench.api.reject = lambda _method, _path: None
    assert await bench.reconcile()
    assert SERVICE in bench.api.objects


async def test_a_service_that_is_deleted_while_it_is_changed_does_not_mean_that_the_job_is_deleted(
    bench: Bench,
) -> None:
    bench.job()
    await bench.reconcile()
    bench.fail("worker-1")
    gone = (404, "NotFound", 'services "fashion" not found', "")
    bench.api.reject = lambda method, path: gone if (method, path) == ("PATCH", SERVICE) else None
    assert not await bench.reconcile()
    assert bench.jobs.get(KEY) is not None


async def test_a_404_for_a_pod_does_not_mean_that_the_job_is_deleted(bench: Bench) -> None:
    bench.job()
    gone = (404, "NotFound", 'namespaces "team" not found', "")
    bench.api.reject = lambda method, path: gone if method == "POST" and path.endswith("/pods") else None
    assert not await bench.reconcile()
    assert bench.jobs.get(KEY) is not None


async def test_a_job_whose_status_is_not_found_is_removed_from_the_cache(bench: Bench) -> None:
    bench.job()
    del bench.api.objects[JOB]
    assert await bench.reconcile()
    assert bench.jobs.get(KEY) is None
    assert bench.api.requests("pods") == []


async def test_a_request_for_a_kind_that_is_not_served_yet_is_repeated(bench: Bench) -> None:
    bench.job()
    bench.api.reject = lambda _method, path: (404, "", "404 page not found", "") if path.endswith("/status") else None
    assert not await bench.reconcile()
    assert bench.jobs.get(KEY) is not None


async def test_a_request_that_is_forbidden_for_a_moment_is_repeated_and_not_reported(bench: Bench) -> None:
    bench.job()
    bench.api.reject = rejecting_pods(NO_ROLE)
    assert not await bench.reconcile()
    assert not await bench.reconcile()
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "Starting"
    bench.api.reject = lambda _method, _path: None
    assert await bench.reconcile()
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "Starting"


async def test_a_request_that_stays_forbidden_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "_FORBIDDEN_SECONDS", -1.0)
    bench.job()
    bench.api.reject = rejecting_pods(NO_ROLE)
    await bench.reconcile()
    await bench.reconcile()
    ready = condition(bench.api.objects[JOB]["status"], "PodsReady")
    assert (ready["reason"], "cannot create resource" in ready["message"]) == ("FailedCreate", True)


async def test_an_exceeded_quota_is_reported_at_once(bench: Bench) -> None:
    bench.job()
    bench.api.reject = rejecting_pods('pods "fashion-worker-0" is forbidden: exceeded quota: small')
    await bench.reconcile()
    await bench.reconcile()
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "FailedCreate"


async def test_a_namespace_that_is_being_deleted_costs_one_request_for_each_reconcile(bench: Bench) -> None:
    bench.job()
    rejection = (403, "Forbidden", "namespace team is being terminated", "NamespaceTerminating")
    bench.api.reject = lambda method, _path: rejection if method == "POST" else None
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert bench.api.requests("services") == ["POST", "POST"]
    assert bench.api.requests("pods") == []
    assert condition(bench.api.objects[JOB]["status"], "PodsReady")["reason"] == "Starting"


async def test_jobs_that_ended_long_ago_cost_a_new_process_no_request(bench: Bench) -> None:
    bench.job(status=ENDED)
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert bench.api.asked == []


async def test_objects_of_an_ended_job_that_a_killed_process_did_not_delete_are_deleted(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    for path in [p for p in bench.api.objects if "/pods/" in p]:
        del bench.api.objects[path]
    bench.job(status=ENDED)
    bench.start()
    assert await bench.reconcile()
    assert bench.api.requests("services")[-1] == "DELETE"


async def test_a_launcher_report_is_stored_and_published_once(bench: Bench) -> None:
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    bench.states.get(KEY, UID).report = launcher_report(failure(1))
    bench.api.asked.clear()
    assert await bench.reconcile()
    assert (bench.api.requests("status"), bench.api.requests("events")) == (["PATCH"], ["POST"])
    assert bench.api.objects[JOB]["status"]["failures"][0]["round"] == 0
    assert await bench.reconcile()
    assert len(bench.api.asked) == 2


async def test_invented_failures_of_a_pod_cause_a_burst_of_events_and_no_metrics(
    bench: Bench,
) -> None:
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    bench.api.asked.clear()
    for number in range(20):
        made_up = [failure(1000 * number + n + 1, reason=f"R{n}") for n in range(50)]
        bench.states.get(KEY, UID).report = launcher_report(*made_up, restarts=Restarts())
        assert await bench.reconcile()
    assert len(bench.api.requests("events")) <= 25
    assert [counted("tfdist_restarts_total", reason=f"R{n}") for n in range(50)] == [0] * 50


async def test_a_job_whose_report_raises_an_exception_is_planned_without_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.job()
    await bench.reconcile()
    bench.run("worker-0", "worker-1")
    await bench.reconcile()
    bench.states.get(KEY, UID).report = launcher_report()

    def with_a_bug(view: JobView, now: datetime, installation: Installation) -> Plan:
        assert view.runtime.report is None
        return plan(view, now, installation)

    monkeypatch.setattr(reconciler, "plan", with_a_bug)
    bench.fail("worker-1")
    assert await bench.reconcile()
    assert "/api/v1/namespaces/team/pods/fashion-worker-1-r1" in bench.api.objects


async def test_an_invalid_job_of_another_controller_is_not_changed(bench: Bench) -> None:
    bench.job(spec={"worker": {"replicas": 2}, "runPolicy": {"managedBy": "example.com/other"}, "tensorBoard": {}})
    assert await bench.reconcile()
    assert bench.api.asked == []


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_the_end_of_a_job_is_measured_once_with_its_age(bench: Bench) -> None:
    ended, seconds = (f"tfdist_job_duration_seconds_{what}" for what in ("count", "sum"))
    before = counted(ended, result="Failed"), counted(seconds, result="Failed")
    bench.job(spec=manifest(runPolicy={"backoffLimit": 0})["spec"])
    bench.jobs.upsert(bench.api.put(JOB, aged(bench.api.objects[JOB], "2030-01-02T03:00:05Z")))
    await bench.reconcile()
    bench.fail("worker-1")
    await bench.reconcile()
    assert bench.api.objects[JOB]["status"]["phase"] == "Failed"
    await bench.reconcile()
    bench.start()
    await bench.reconcile()
    after = counted(ended, result="Failed"), counted(seconds, result="Failed")
    assert (after[0] - before[0], after[1] - before[1]) == (1, 240)


def aged(job: dict[str, Any], created: str) -> dict[str, Any]:
    """Return a job that was created at that time."""
    return job | {"metadata": job["metadata"] | {"creationTimestamp": created}}


async def test_a_restart_is_counted_once_although_a_new_process_reports_it_again(bench: Bench) -> None:
    before = counted("tfdist_restarts_total", reason="Crash")
    bench.job()
    await bench.reconcile()
    bench.fail("worker-1")
    await bench.reconcile()
    bench.start()
    await bench.reconcile()
    assert counted("tfdist_restarts_total", reason="Crash") - before == 1


async def test_the_newer_of_two_jobs_with_one_checkpoint_directory_gets_no_pods(bench: Bench) -> None:
    # given an older job that trains into the same directory of the same claim
    shared = CHECKPOINT | {"directory": "/ckpt/shared"}
    older = manifest("older", checkpoint=shared)
    older["metadata"] |= {"uid": "uid-older", "generation": 1, "resourceVersion": "1"}
    older["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z"
    bench.jobs.upsert(older | {"status": FIRST_ATTEMPT})
    bench.job(spec=manifest(checkpoint=shared)["spec"])
    # when
    assert await bench.reconcile()
    # then
    assert bench.api.requests("pods") == []
    waits = condition(bench.api.objects[JOB]["status"], "PodsReady")
    assert waits["reason"] == "CheckpointDirectoryInUse"
    assert "is in use by the job older, as its checkpoint.directory;" in waits["message"]
    # when it is deleted
    bench.jobs.on_delete(older)
    assert await bench.reconcile()
    # then
    assert bench.api.requests("pods") == ["POST", "POST"]
