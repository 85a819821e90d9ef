"""Pod status that the API server stores from before a node was restarted is stale."""

from typing import Any

from tfdist_cluster.freshness import believed_pods

NODES = {"worker": "2030-01-02T03:04:05.123456789Z"}


def pod(started: str | None, node: str = "worker") -> dict[str, Any]:
    state = {"running": {"startedAt": started}} if started else {"waiting": {}}
    return {
        "metadata": {"name": "p"},
        "spec": {"nodeName": node},
        "status": {"containerStatuses": [{"state": state}]},
    }


def test_the_running_state_of_a_container_older_than_its_node_is_stale() -> None:
    assert believed_pods([pod("2030-01-02T03:04:04Z")], NODES) == ["p"]


def test_a_container_started_in_the_same_second_as_its_node_runs() -> None:
    assert believed_pods([pod("2030-01-02T03:04:05Z")], NODES) == []


def test_readiness_that_was_probed_before_the_node_started_is_stale() -> None:
    probed = pod("2030-01-02T03:04:09Z")
    probed["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet"}]
    probed["spec"]["containers"] = [{"readinessProbe": {}}]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2030-01-02T03:00:00Z"}
    probed["status"]["conditions"] = [ready]
    assert believed_pods([probed], NODES) == ["p"]
    ready["lastTransitionTime"] = "2030-01-02T03:04:15Z"
    assert believed_pods([probed], NODES) == []


def test_a_waiting_container_is_not_stale() -> None:
    assert believed_pods([pod(None)], NODES) == []


def test_a_pod_on_no_node_of_this_cluster_is_not_checked() -> None:
    assert believed_pods([pod("2029-01-01T00:00:00Z", "elsewhere")], NODES) == []
