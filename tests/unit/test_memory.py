"""The memory of a cached pod: the API server sends kilobytes, the cache keeps less than one."""

import tracemalloc

import orjson
from support.raw import raw_pod

from tfdist_operator.cache.pod_cache import PodCache

PODS = 2000
REPLICAS = 4
"""Pods of one job."""
MOST_BYTES = 1024

CONDITIONS = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]


def running_pod(number: int) -> bytes:
    """A running pod as the watch returns it, with all fields that the kubelet and the scheduler set."""
    job = number // REPLICAS
    made = raw_pod(
        100000 + number,
        number % REPLICAS,
        uid=f"{number:08}-aaaa-bbbb-cccc-dddddddddddd",
        job=f"job-{job}",
        job_uid=f"{job:08}-2222-3333-4444-555555555555",
    )
    made["metadata"] |= {
        "namespace": f"team-{job % 10}",
        "creationTimestamp": "2030-01-02T03:04:05Z",
        "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:field-{i}": {} for i in range(100)}}],
    }
    made["spec"]["nodeName"] = f"node-{number % 300}"
    made["status"] = {
        "phase": "Running",
        "podIP": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
        "conditions": [{"type": c, "status": "True", "lastTransitionTime": "2030-01-02T03:04:05Z"} for c in CONDITIONS],
        "containerStatuses": [{"name": "tensorflow", "ready": True, "state": {"running": {"startedAt": "2030"}}}],
    }
    return orjson.dumps(made)


def bytes_per_pod() -> float:
    """Return the memory of the cache for each of many pods, after each was added and changed once."""
    lines = [running_pod(number) for number in range(PODS)]
    store = PodCache(lambda _: None)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for line in lines:
            store.on_update(orjson.loads(line))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store) == PODS
    return (after - before) / PODS


def test_a_pod_costs_less_than_a_kilobyte() -> None:
    assert len(running_pod(1)) > 2 * MOST_BYTES, "a pod of the test is smaller than a real one"
    bytes_per_pod()  # fills caches, which cost once and not for each pod
    assert bytes_per_pod() < MOST_BYTES
