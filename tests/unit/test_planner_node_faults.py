"""Failures that are the fault of a node: the next pod prefers other nodes, as often as `backoffLimit` allows."""

from typing import Any

import pytest
from support.factories import Lifecycle, created, deleted, event_reasons, launcher_report, pod, termination_message

from tfdist.planner import Plan

BOTH = "worker-0:R worker-1:R"
MISSING = termination_message(reason="DeviceMissing", message="TensorFlow sees none of the 2 GPUs")
STAY = {"action": "Restart", "onExitCodes": {"operator": "In", "values": [71]}}


def fault(job: Lifecycle, number: int, node: str, code: int = 71, message: str = MISSING) -> Plan:
    """Have the only worker end on a node in an attempt, wait for the next one, and return what creates its pod."""
    name = f"worker-0-r{number}" if number else "worker-0"
    todo = job.reconcile([pod(name, "F", exit_code=code, node=node, message=message)])
    return todo if todo.creates or job.status["phase"] == "Failed" else job.reconcile(after=300)


def single(**spec: Any) -> Lifecycle:
    return Lifecycle("worker-0:R", worker={"replicas": 1}, strategy="OneDevice", **spec)


def avoided(plan: Plan) -> list[str]:
    """Return the nodes that the created pods do not prefer."""
    affinity = plan.creates[0]["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return [field["values"][0] for term in terms for field in term["preference"]["matchFields"]]


def test_a_pod_that_misses_a_gpu_is_followed_by_one_that_prefers_other_nodes() -> None:
    job = single()
    todo = job.reconcile([pod("worker-0", "F", exit_code=71, node="n1", message=MISSING)])
    assert (created(todo), avoided(todo)) == (["worker-0-r1"], ["n1"])
    assert event_reasons(todo) == ["Restarting", "NodeAvoided"]
    assert todo.events[1].message.startswith("worker-0 failed by a fault of node n1; later attempts prefer other nodes")
    assert job.status["failures"][-1]["reason"] == "DeviceMissing"
    assert job.status["restarts"]["counted"] == 1


def test_under_launchers_only_the_pod_that_misses_a_gpu_is_replaced() -> None:
    job = Lifecycle(BOTH)
    job.reconcile(BOTH, report=launcher_report())
    ended = pod("worker-1", "F", exit_code=71, node="n1", message=MISSING)
    todo = job.reconcile([pod("worker-0", node="n0"), ended], report=launcher_report())
    assert (created(todo), deleted(todo), avoided(todo)) == (["worker-1-r1"], [], ["n1"])


def test_a_gpu_that_is_missing_on_each_of_several_nodes_fails_the_job_at_the_limit() -> None:
    """Given an image whose CUDA libraries load nowhere, when it ends on one node after the other, then the job fails"""
    job = single(runPolicy={"backoffLimit": 2})
    assert avoided(fault(job, 0, "n1")) == ["n1"]
    assert avoided(fault(job, 1, "n2")) == ["n1", "n2"]
    assert created(fault(job, 2, "n3")) == []
    assert job.condition_status("Failed") == ("True", "BackoffLimitExceeded")


@pytest.mark.parametrize("node", ["n1", ""], ids=["the only node", "a local run"])
def test_a_gpu_that_is_missing_twice_in_the_same_place_fails_the_job_as_any_repeated_error(node: str) -> None:
    job = single(runPolicy={"backoffLimit": 10})
    assert avoided(fault(job, 0, node)) == ([node] if node else [])
    fault(job, 1, node)
    assert job.condition_status("Failed") == ("True", "RepeatedError")


def test_a_rule_of_the_job_keeps_its_pods_on_a_node_without_a_gpu() -> None:
    job = single(failurePolicy={"rules": [STAY]})
    todo = fault(job, 0, "n1")
    assert (created(todo), avoided(todo), event_reasons(todo)) == (["worker-0-r1"], [], ["Restarting"])
    assert job.status["failures"][-1]["reason"] == "DeviceMissing"


def test_a_rule_attributes_any_other_failure_to_its_node() -> None:
    rule = {"action": "AvoidNode", "onMessagePattern": "CUDA_ERROR_ECC_UNCORRECTABLE"}
    job = single(failurePolicy={"rules": [rule]}, runPolicy={"backoffLimit": 10})
    ecc = "InternalError: CUDA_ERROR_ECC_UNCORRECTABLE"
    assert avoided(fault(job, 0, "n1", 1, ecc)) == ["n1"]
    assert avoided(fault(job, 1, "n2", 1, ecc)) == ["n1", "n2"], "the same error on another node is not repeated"
    assert job.status["failures"][-1]["reason"] == "ApplicationError"
