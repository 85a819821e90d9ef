"""Known bugs of the training operator that its tests do not cover: the behaviour of TFDist with the same TFJob."""

import pytest
from support import kubelet
from support.api import Json
from support.conformance import ConformanceCluster, ConvertedJob, situation, types
from support.polling import wait_for
from support.tfjobs import replica, tfjob

from tfdist.convert import CannotConvert, convert

pytestmark = pytest.mark.integration


# Replicas 0: the peer creates and deletes the pod of index 0 for ever


def test_a_type_with_0_replicas_is_left_out(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(chief=1, worker=0))
    job.await_attempt(0)
    assert set(job.pods()) == {"chief-0"}
    assert "worker" not in job.status["replicas"]


def test_a_job_without_training_replicas_is_rejected() -> None:
    with pytest.raises(CannotConvert, match="a Chief or Worker is required"):
        convert(tfjob(types(worker=0)))


# A deleted pod: to the peer it has failed, and with it the job, under every restart policy


@pytest.mark.parametrize("policy", ["OnFailure", "Always", "ExitCode", "Never"])
def test_a_running_pod_that_somebody_deletes_starts_again_and_fails_nothing(
    cluster: ConformanceCluster, policy: str
) -> None:
    job = cluster.submit(types(policy, worker=2))
    job.await_attempt(0)
    job.delete_pod("worker-1")
    status = job.await_attempt(1)
    assert status["restarts"] == {"counted": 0, "uncounted": 1, "sinceCheckpoint": 0}
    assert job.live() == {"worker-0-r1", "worker-1-r1"}


# A deadline: the peer's timer does nothing, and only a chance event ends the job


@situation(types(worker=2), "worker-0,1:R", policy={"activeDeadlineSeconds": 1})
def test_a_deadline_fires_though_nothing_else_happens(job: ConvertedJob) -> None:
    job.await_phase("Failed")
    failed = job.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "ActiveDeadlineExceeded"


# ExitCode with backoffLimit: the peer restarts without end, because each new pod begins to count at 0


def test_restarts_under_exit_code_count_toward_the_limit(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types("ExitCode", worker=1), policy={"backoffLimit": 1})
    job.await_attempt(0)
    job.end("worker-0:F137")
    assert job.await_attempt(1)["restarts"]["counted"] == 1
    job.end("worker-0-r1:F137")
    job.await_phase("Failed")
    failed = job.condition("Failed")
    assert failed is not None
    assert failed["reason"] == "BackoffLimitExceeded"


# A succeeded pod that is garbage-collected: the peer runs its replica again


@situation(types(worker=2), "worker-0:R worker-1:S", successPolicy="AllWorkers")
def test_a_replica_that_is_done_stays_done_when_its_pod_is_deleted(job: ConvertedJob) -> None:
    job.await_phase("Running")
    job.delete_pod("worker-1")
    job.end("worker-0:S")
    job.await_phase("Succeeded")
    assert set(job.pods()) == {"worker-0"}


def test_a_replica_that_has_just_done_its_work_stays_done_when_its_pod_is_deleted(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(worker=2), successPolicy="AllWorkers")
    job.await_attempt(0)
    before = cluster.reconciliations()
    job.end("worker-1:S")
    wait_for("a reconciliation, which writes no status yet", lambda: cluster.reconciliations() > before)
    job.delete_pod("worker-1")
    job.end("worker-0:S")
    job.await_status("an end, or a restart", lambda s: s["phase"] == "Succeeded" or s["attempt"] > 0)
    assert job.status["attempt"] == 0


# The evaluator: the peer kills it, or lets it run for ever, when the chief has succeeded


@situation(
    types(chief=1, worker=1, evaluator=1), "chief-0:S worker-0:S evaluator-0:R", policy={"cleanPodPolicy": "All"}
)
def test_the_job_waits_for_its_evaluator(job: ConvertedJob) -> None:
    job.await_phase("Evaluating")
    assert job.live() == {"evaluator-0"}
    job.end("evaluator-0:S")
    job.await_phase("Succeeded")


@situation(types("Never", chief=1, worker=1, evaluator=1), "chief-0:R worker-0:R evaluator-0:F1")
def test_an_evaluator_that_failed_does_not_fail_training(job: ConvertedJob) -> None:
    job.await_phase("Running")
    evaluated = job.condition("Evaluated")
    assert evaluated is not None
    assert evaluated["status"] == "False"


# A dead node: the peer waits for the deletion of its pods, which never ends


def preferring(node: str) -> Json:
    """Return the fields of a pod that goes to a node as long as it can."""
    there = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": there}]}
    return {"affinity": {"nodeAffinity": wish}, "tolerations": [kubelet.SILENT]}


def test_a_job_continues_on_another_node_while_a_pod_of_a_dead_node_is_never_deleted(
    cluster: ConformanceCluster,
) -> None:
    silent_node = cluster.silent_node
    job = cluster.submit({"Chief": replica(1, pod=preferring(silent_node)), "Worker": replica(1)})
    wait_for("the chief's place", lambda: job.node_of("chief-0") == silent_node)
    job.end("chief-0:R")
    job.await_attempt(0)
    # what Kubernetes does when the node has not answered for a while
    job.api.do("PATCH", f"{kubelet.NODES}/{silent_node}", {"spec": {"unschedulable": True}}, "merge-patch")
    job.delete_pod("chief-0")
    assert job.await_attempt(1)["restarts"]["counted"] == 0
    assert "deletionTimestamp" in job.pods()["chief-0"]["metadata"]
    assert job.node_of("chief-0-r1") != silent_node


# Success and failure in one reconciliation: the peer sets both conditions


@situation(types(chief=1, worker=2), "chief-0:S worker-0:F1 worker-1:R")
def test_success_of_the_deciding_replica_wins_over_a_failure_in_the_same_reconciliation(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")
    assert job.holds() - {"Degraded"} == {"Succeeded"}, "Degraded names the failure after it"


@situation(types(chief=1, worker=2), "chief-0:F1 worker-0,1:S")
def test_failure_of_the_deciding_replica_wins_over_the_success_of_others(job: ConvertedJob) -> None:
    job.await_phase("Failed")
    assert job.holds() == {"Failed"}


# Services: the peer leaves them when no pod is there any more


@situation(types(worker=2), "worker-0,1:S", policy={"cleanPodPolicy": "All"})
def test_the_service_goes_with_the_last_pod(job: ConvertedJob) -> None:
    job.await_phase("Succeeded")
    job.await_pods("no pod")
    wait_for("the Service to go", lambda: not job.has_service())


def test_the_service_goes_when_others_have_deleted_the_pods(cluster: ConformanceCluster) -> None:
    job = cluster.submit(types(worker=1))
    job.await_attempt(0)
    job.end("worker-0:S")
    job.await_phase("Succeeded")
    job.delete_pod("worker-0")
    wait_for("the Service to go", lambda: not job.has_service())
