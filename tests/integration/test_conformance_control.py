"""Cases C83 to C94: suspension, size, adoption, gangs and settings of a moved TFJob."""

import pytest
from support.api import PODS, Api, Json
from support.conformance import ConformanceCluster, ConvertedJob, situation, types
from support.polling import wait_for
from support.tfjobs import IMAGE, replica

from tfdist.render.names import JOB_LABEL, JOB_UID_LABEL
from tfdist_operator.config import from_environment

pytestmark = pytest.mark.integration


def another_runs(cluster: ConformanceCluster) -> ConvertedJob:
    """Let a later job come to run: whatever the controller wanted to do for earlier ones is done by then."""
    other = cluster.submit(types(worker=1))
    other.await_phase("Running")
    return other


def conditions(job: ConvertedJob) -> dict[str, str]:
    return {c["type"]: c["status"] for c in job.status["conditions"]}


# Suspension


def test_c83_a_job_that_is_suspended_from_the_beginning_creates_nothing(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(worker=2, ps=1), policy={"suspend": True})
    status = job.await_phase("Suspended")
    another_runs(cluster)
    assert job.pods() == {}
    assert not job.has_service()
    assert "startTime" not in status
    assert conditions(job) == {"Suspended": "True"}


def test_c84_a_running_job_that_is_suspended_loses_its_pods_and_keeps_its_history(cluster: ConformanceCluster) -> None:
    """The peer deletes the Service too; it costs nothing, and holds no address while no pod is there."""
    job = cluster.submit(types(worker=2, ps=1))
    started = job.await_attempt(0)["startTime"]
    job.change(runPolicy={"suspend": True})
    status = job.await_phase("Suspended")
    job.await_pods("no pod")
    assert job.has_service()
    assert status["startTime"] == started
    assert "activeSince" not in status
    assert conditions(job) == {"PodsReady": "False", "Running": "False", "Suspended": "True"}
    assert {role: counts["running"] for role, counts in job.status["replicas"].items()} == {"worker": 0, "ps": 0}


def test_c85_a_resumed_job_runs_as_the_next_attempt(cluster: ConformanceCluster) -> None:
    """The peer replaces `startTime`; in TFDist it is the first start, and `activeSince` is when the job resumed."""
    job = cluster.submit(types(worker=2))
    started = job.await_attempt(0)["startTime"]
    job.change(runPolicy={"suspend": True})
    job.await_phase("Suspended")
    job.change(runPolicy={"suspend": False})
    status = job.await_attempt(1)
    assert job.live() == {"worker-0-r1", "worker-1-r1"}
    assert (status["startTime"], status["restarts"]["counted"]) == (started, 0)
    assert status["activeSince"] >= started
    suspended = job.condition("Suspended")
    assert suspended is not None
    assert (suspended["status"], suspended["reason"]) == ("False", "Resumed")


def test_c86_a_job_of_another_manager_is_left_alone(cluster: ConformanceCluster) -> None:
    policy = {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": True}
    job = cluster.submit(types(worker=2), policy=policy)
    job.change(runPolicy={"suspend": False})
    another_runs(cluster)
    assert job.status == {}
    assert job.pods() == {}
    assert not job.has_service()


# Size


def test_c87_a_job_with_dynamic_workers_keeps_its_size(cluster: ConformanceCluster) -> None:
    """The peer deletes the surplus worker and does not inform the others.

    The conversion leaves it out with a note: `elastic` is planned, and a job with it would be Invalid.
    """
    job = cluster.submit(types(worker=3), enableDynamicWorker=True)
    job.await_attempt(0)


def test_c87_a_suspended_job_may_shrink(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(worker=3))
    job.await_attempt(0)
    rejected = job.api.send("PATCH", job.path, {"spec": {"worker": {"replicas": 2}}}, "merge-patch")
    assert (rejected.status_code, "suspend the job" in rejected.text) == (422, True)
    job.change(runPolicy={"suspend": True})
    job.await_phase("Suspended")
    job.change(worker={"replicas": 2}, runPolicy={"suspend": False})
    job.await_attempt(1)
    assert job.live() == {"worker-0-r1", "worker-1-r1"}


@situation(types(worker=3), "worker-0:P")
def test_c88_missing_workers_are_created(job: ConvertedJob) -> None:
    job.await_pods("all three", "worker-0", "worker-1", "worker-2")


@situation(types(worker=3), "worker-0,1,2:R")
@situation(types(worker=4), "worker-0,1,2:R")
def test_c89_as_many_pods_are_created_as_are_missing(jobs: list[ConvertedJob]) -> None:
    complete, growing = jobs
    complete.await_phase("Running")
    growing.await_pods("the fourth", *(f"worker-{i}" for i in range(4)))
    assert len(complete.pods()) == 3


@situation(types(worker=2), "worker-0,1,2:R")
@situation(types(worker=3), "worker-0,1,2,4:R")
def test_c89_a_pod_beyond_the_jobs_size_does_not_count(jobs: list[ConvertedJob]) -> None:
    for job, size in zip(jobs, (2, 3), strict=True):
        assert job.await_phase("Running")["replicas"]["worker"]["running"] == size


@situation(types(worker=2), "worker-0,1,2:R")
def test_c89_a_pod_beyond_the_jobs_size_is_removed(job: ConvertedJob) -> None:
    """It is there when the job was suspended, made smaller and resumed while no controller ran."""
    job.await_pods("the two that it has", "worker-0", "worker-1")


# Adoption: what carries a job's UID belongs to it


def orphaned(_: Api, pod: Json) -> None:
    del pod["metadata"]["ownerReferences"]


def owned_by_another(api: Api, pod: Json) -> None:
    meta = pod["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/configmaps"
    owner = api.do("POST", path, {"metadata": {"generateName": "owner-"}})["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["name"], "uid": owner["uid"]}
    meta["ownerReferences"] = [reference | {"controller": True}]


def of_an_earlier_job(_: Api, pod: Json) -> None:
    pod["metadata"]["labels"][JOB_UID_LABEL] = "11111111-2222-3333-4444-555555555555"
    del pod["metadata"]["ownerReferences"]


def owners(job: ConvertedJob, name: str) -> list[str]:
    return [owner["kind"] for owner in job.pods()[name]["metadata"].get("ownerReferences", ())]


@situation(types(worker=1), "worker-0:R", edit=orphaned)
def test_c90_an_orphan_of_the_job_is_adopted(job: ConvertedJob) -> None:
    job.await_phase("Running")
    wait_for("the adoption", lambda: owners(job, "worker-0") == ["TFDistJob"])


@situation(types("OnFailure", worker=1), "worker-0:X", edit=orphaned)
def test_c90_an_orphan_that_is_being_deleted_is_not_adopted(job: ConvertedJob) -> None:
    job.await_pods("its replacement", "worker-0", "worker-0-r1")
    assert owners(job, "worker-0") == []


@situation(types(worker=2), "worker-1:R", edit=of_an_earlier_job)
def test_c90_a_pod_of_an_earlier_job_of_the_same_name_is_not_adopted(job: ConvertedJob) -> None:
    """The peer knows jobs by their names in labels, and adopts it; TFDist knows them by their UIDs."""
    job.await_phase("Starting")
    wait_for("the pod whose name is free", lambda: "worker-0" in job.pods())
    assert owners(job, "worker-1") == []


@situation(types(worker=1), "worker-0:R", edit=owned_by_another)
def test_c90_a_pod_that_another_controller_owns_is_left_to_it(cluster: ConformanceCluster, job: ConvertedJob) -> None:
    job.await_status("a reconciliation", bool)
    another_runs(cluster)
    assert owners(job, "worker-0") == ["ConfigMap"]


def test_c90_a_job_that_is_being_deleted_adopts_nothing(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(worker=1))
    job.await_attempt(0)
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    job.api.do("PATCH", job.path, hold, "merge-patch")
    job.api.do("DELETE", job.path)
    orphan = job.pods()["worker-0"]
    meta = {k: orphan["metadata"][k] for k in ("labels", "namespace")} | {"name": f"{job.name}-copy"}
    job.api.do("POST", PODS.format(ns=job.namespace), {"metadata": meta, "spec": orphan["spec"]})
    another_runs(cluster)
    assert owners(job, "copy") == []
    job.api.do("PATCH", job.path, {"metadata": {"finalizers": None}}, "merge-patch")


def test_c90_a_pod_that_loses_its_labels_is_replaced_and_not_deleted(cluster: ConformanceCluster) -> None:
    """The peer gives up the pod, too, so that it outlives the job; here it is deleted with the job."""
    job = cluster.submit(types(worker=1))
    job.await_attempt(0)
    job.api.do("PATCH", job.pod_path("worker-0"), {"metadata": {"labels": {JOB_LABEL: None}}}, "merge-patch")
    assert job.await_attempt(1)["restarts"]["counted"] == 0
    taken = job.api.do("GET", job.pod_path("worker-0"))
    assert taken["status"]["phase"] == "Running"
    assert [owner["kind"] for owner in taken["metadata"]["ownerReferences"]] == ["TFDistJob"]


# Gangs


def test_c91_a_gang_larger_than_the_job_is_left_out(cluster: ConformanceCluster) -> None:
    """The peer lets a job of 1 worker wait for 10 of them for ever; here each pod starts when it can."""
    job = cluster.submit(types(worker=1), policy={"schedulingPolicy": {"minAvailable": 10}})
    job.await_attempt(0)
    job.end("worker-0:S")
    job.await_phase("Succeeded")


def test_c91_a_job_with_the_label_of_a_queue_runs_without_kueue(cluster: ConformanceCluster) -> None:
    """The label belongs to Kueue: without it, it has no effect on jobs of any kind."""
    job = cluster.submit(types(worker=1), labels={"kueue.x-k8s.io/queue-name": "team"})
    job.await_attempt(0)


# A job as a whole


def test_c92_a_plain_job_runs_and_succeeds_and_nothing_else(cluster: ConformanceCluster) -> None:
    job = cluster.submit({"Worker": replica(1)})
    job.await_attempt(0)
    job.end("worker-0:S")
    job.await_phase("Succeeded")
    assert conditions(job) == {"PodsReady": "False", "Running": "False", "Succeeded": "True"}
    wait_for("its last event", lambda: "Succeeded" in job.events())
    assert set(job.events()) == {"Running", "Succeeded"}


def test_c93_the_chief_ends_the_job_with_0(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(chief=1, worker=2, ps=1))
    job.await_attempt(0)
    job.end("chief-0:S")
    job.await_phase("Succeeded")


def test_c93_without_a_chief_worker_0_ends_the_job_with_0(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(worker=2, ps=1))
    job.await_attempt(0)
    job.end("worker-0:S")
    job.await_phase("Succeeded")


def test_c94_a_malformed_setting_of_the_controller_is_rejected_and_letter_case_means_nothing() -> None:
    """The peer's `--enable-scheme` chooses among kinds of jobs; TFDist's controller has one kind and no such flag."""
    environment = {"TFDIST_TRAINER_IMAGE": IMAGE}
    assert from_environment(environment | {"TFDIST_LEADER_ELECTION": "FALSE"}).leader_election is False
    with pytest.raises(SystemExit, match="TFDIST_LEADER_ELECTION='perhaps'"):
        from_environment(environment | {"TFDIST_LEADER_ELECTION": "perhaps"})
