"""A job in a queue of Kueue: the requests for its Workload, and what a rejection of them causes."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.bench import JOB, KEY, Bench, bench_served
from support.factories import UID, manifest

from tfdist.api.gang_system import GangSystem
from tfdist.render.names import workload

SPEC = manifest()["spec"] | {"scheduling": {"queue": "team-a"}}
COLLECTION = "/apis/kueue.x-k8s.io/v1beta2/namespaces/team/workloads"
WORKLOAD = f"{COLLECTION}/{workload('fashion', UID)}"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITY = "kueue.x-k8s.io/priority-class"
TIME = "2030-01-02T03:04:00Z"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A controller that has found Kueue, and a flavor."""
    async with bench_served() as made:
        made.kueue.api.version = "v1beta2"
        made.kueue.flavors.on_update(
            {"metadata": {"name": "spot", "uid": "f"}, "spec": {"nodeLabels": {"pool": "spot"}}}
        )
        yield made


def priority_class(bench: Bench, name: str, value: int, *, default: bool = False) -> None:
    bench.api.put(f"{CLASSES}/{name}", {"value": value, "globalDefault": default})


def set_conditions(bench: Bench, **conditions: str) -> None:
    """Have Kueue set conditions of the Workload, and the watch deliver it."""
    found = bench.api.objects[WORKLOAD]
    made = [
        {"type": k, "status": v, "reason": k, "message": f"{k} is {v}", "lastTransitionTime": TIME}
        for k, v in conditions.items()
    ]
    assigned = [{"name": "worker", "count": 2, "flavors": {"cpu": "spot"}}]
    status = {"conditions": made, "admission": {"clusterQueue": "all", "podSetAssignments": assigned}}
    bench.kueue.workloads.on_update(bench.api.put(WORKLOAD, found | {"status": status}))


def label(bench: Bench, labels: dict[str, str]) -> None:
    """Have the user replace the labels of the job."""
    found = bench.api.objects[JOB]
    bench.jobs.upsert(bench.api.put(JOB, found | {"metadata": found["metadata"] | {"labels": labels}}))


def scheduling(bench: Bench) -> dict[str, Any]:
    return dict(bench.api.objects[JOB]["status"]["scheduling"])


def phase(bench: Bench) -> str:
    return str(bench.api.objects[JOB]["status"]["phase"])


def message(bench: Bench) -> str:
    return str(bench.api.objects[JOB]["status"]["summary"]["message"])


async def test_a_workload_is_created_once_with_the_priority_of_its_class(bench: Bench) -> None:
    # given
    priority_class(bench, "batch", 7)
    priority_class(bench, "usual", 3, default=True)
    bench.job(spec=SPEC | {"scheduling": {"queue": "team-a", "priorityClassName": "batch"}})
    # when
    assert await bench.reconcile()
    assert await bench.reconcile()
    # then
    assert bench.api.requests("workloads") == ["POST"]
    made = bench.api.objects[WORKLOAD]
    assert made["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert (made["spec"]["queueName"], made["spec"]["priority"]) == ("team-a", 7)
    assert made["metadata"]["ownerReferences"][0]["uid"] == UID
    assert not bench.api.requests("pods")
    assert phase(bench) == "Queued"


async def test_without_a_priority_class_it_has_the_priority_of_the_cluster(bench: Bench) -> None:
    priority_class(bench, "usual", 3, default=True)
    bench.job(spec=SPEC)
    await bench.reconcile()
    assert bench.api.objects[WORKLOAD]["spec"]["priority"] == 3


async def test_an_admitted_job_starts_on_the_nodes_of_its_flavor_and_an_evicted_one_releases_its_quota(
    bench: Bench,
) -> None:
    # given
    bench.job(spec=SPEC)
    await bench.reconcile()
    # when
    set_conditions(bench, QuotaReserved="True", Admitted="True")
    assert await bench.reconcile()
    # then
    pods = [made for path, made in bench.api.objects.items() if "/pods/" in path]
    assert [made["spec"]["nodeSelector"] for made in pods] == [{"pool": "spot"}] * 2
    # when it is evicted, and its pods are deleted and gone
    set_conditions(bench, QuotaReserved="True", Admitted="True", Evicted="True")
    assert await bench.reconcile()
    assert bench.api.requests("pods", "DELETE") == ["DELETE", "DELETE"]
    assert "admission" in bench.api.objects[WORKLOAD]["status"]
    for replica in ("worker-0", "worker-1"):
        bench.remove(replica, 42)
    assert await bench.reconcile()
    assert await bench.reconcile()
    # then
    status = bench.api.objects[WORKLOAD]["status"]
    found = {c["type"]: c["status"] for c in status["conditions"]}
    assert (found["QuotaReserved"], found["Admitted"]) == ("False", "False")
    assert "admission" not in status


async def test_a_workload_that_has_changed_since_is_not_overwritten(bench: Bench) -> None:
    # given an evicted job without pods, whose Workload changes before the controller has seen it
    bench.job(spec=SPEC)
    await bench.reconcile()
    set_conditions(bench, QuotaReserved="True", Admitted="True", Evicted="True")
    bench.api.put(WORKLOAD, bench.api.objects[WORKLOAD])
    # when
    assert not await bench.reconcile()
    # then
    assert "admission" in bench.api.objects[WORKLOAD]["status"]


@pytest.mark.parametrize(
    ("rejection", "text"),
    [
        pytest.param((403, "Forbidden", "workloads is forbidden", ""), "workloads is forbidden", id="no rights"),
        pytest.param(
            (500, "InternalError", 'failed calling webhook "vworkload.kb.io": no endpoints', ""),
            "vworkload.kb.io",
            id="a webhook",
        ),
    ],
)
async def test_a_rejected_workload_is_in_the_status_and_is_created_later(
    bench: Bench, rejection: tuple[int, str, str, str], text: str
) -> None:
    # given
    bench.job(spec=SPEC)
    bench.api.reject = lambda method, path: rejection if (method, path) == ("POST", COLLECTION) else None
    # when
    assert not await bench.reconcile()
    assert not await bench.reconcile()
    # then
    assert text in message(bench)
    # when it is accepted
    bench.api.reject = lambda _method, _path: None
    assert await bench.reconcile()
    # then
    assert WORKLOAD in bench.api.objects
    await bench.reconcile()
    assert text not in message(bench)


async def test_a_workload_of_that_name_that_is_not_the_jobs_is_left_alone_and_reported(bench: Bench) -> None:
    theirs = bench.api.put(WORKLOAD, {"metadata": {"labels": {}}, "spec": {"queueName": "other"}})
    bench.job(spec=SPEC)
    assert not await bench.reconcile()
    await bench.reconcile()
    assert bench.api.objects[WORKLOAD] == theirs
    assert "not this job's; delete it" in message(bench)


async def test_a_workload_that_exists_already_is_taken_up(bench: Bench) -> None:
    # given a controller that was killed after the creation
    bench.job(spec=SPEC)
    await bench.reconcile()
    bench.start()
    bench.kueue.api.version = "v1beta2"
    # when its successor has not seen the Workload
    assert await bench.reconcile()
    # then
    assert bench.kueue.workloads.job_workload(KEY, UID) is not None
    assert bench.api.requests("workloads", "POST") == ["POST", "POST"]


async def test_a_controller_that_does_not_know_yet_whether_kueue_is_there_starts_no_job_and_sends_no_workload(
    bench: Bench,
) -> None:
    # given
    bench.job(spec=SPEC)
    bench.kueue.api.version, bench.systems = "", {GangSystem.KUEUE: bench.kueue.api.availability}
    # when
    assert await bench.reconcile()
    # then
    assert (bench.api.requests("workloads"), bench.api.requests("pods")) == ([], [])
    assert "its API kueue.x-k8s.io cannot be read now" in message(bench)
    # when it is found
    bench.kueue.api.version = "v1beta2"
    assert await bench.reconcile()
    # then
    assert bench.api.requests("workloads") == ["POST"]


@pytest.mark.parametrize("spec", [SPEC, SPEC | {"scheduling": {"gang": "Kueue"}}])
async def test_a_missing_priority_class_of_kueue_is_named(bench: Bench, spec: dict[str, Any]) -> None:
    made = manifest() | {"spec": spec}
    made["metadata"]["labels"] = {"kueue.x-k8s.io/priority-class": "gold"}
    bench.job(**made)
    assert not await bench.reconcile()
    await bench.reconcile()
    assert "priority class gold (workloadpriorityclasses) does not exist" in message(bench)


async def test_a_job_that_runs_gets_the_priority_of_its_new_label_and_keeps_its_pod_sets(bench: Bench) -> None:
    # given
    classes = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
    bench.job(spec=SPEC)
    await bench.reconcile()
    set_conditions(bench, QuotaReserved="True", Admitted="True")
    await bench.reconcile()
    before = bench.api.objects[WORKLOAD]
    # when its class does not exist
    label(bench, {PRIORITY: "urgent"})
    assert not await bench.reconcile()
    await bench.reconcile()
    # then
    assert "class urgent (workloadpriorityclasses) does not exist" in scheduling(bench)["reason"]
    # when it does
    bench.api.put(f"{classes}/urgent", {"value": 9})
    assert await bench.reconcile()
    # then
    after = bench.api.objects[WORKLOAD]
    assert after["spec"] == before["spec"] | {"priority": 9}
    assert after["status"] == before["status"]
    assert not bench.api.requests("pods", "DELETE")
    await bench.reconcile()
    assert "reason" not in scheduling(bench)


async def test_an_error_of_a_priority_ends_when_its_user_takes_it_back(bench: Bench) -> None:
    # given
    bench.job(spec=SPEC)
    await bench.reconcile()
    set_conditions(bench, QuotaReserved="True", Admitted="True")
    await bench.reconcile()
    label(bench, {PRIORITY: "gone"})
    assert not await bench.reconcile()
    await bench.reconcile()
    # when
    label(bench, {})
    await bench.reconcile()
    await bench.reconcile()
    # then
    assert "reason" not in scheduling(bench)
