"""How soon a job is planned after a change of a pod: never, with its peers, or at once."""

from dataclasses import fields, replace
from typing import Any

import pytest
from support.factories import pod

from tfdist.observed.pod import PodSummary
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.pod_changes import BURST_SECONDS, LATER_SECONDS, planning_delay
from tfdist_operator.kube.keys import NamespacedName

KEY = NamespacedName("team", "fashion")
PENDING = pod("worker-0", "P", node="")
RUNNING = pod("worker-0", "R")


@pytest.mark.parametrize(
    ("previous", "current", "seconds"),
    [
        pytest.param(RUNNING, replace(RUNNING, resource_version=2), None, id="only its version"),
        pytest.param(None, PENDING, LATER_SECONDS, id="created"),
        pytest.param(PENDING, replace(PENDING, node="node-a"), LATER_SECONDS, id="has a node"),
        pytest.param(PENDING, replace(PENDING, reason="ContainerCreating"), LATER_SECONDS, id="containers are created"),
        pytest.param(PENDING, RUNNING, BURST_SECONDS, id="runs"),
        pytest.param(replace(RUNNING, ready=False), RUNNING, BURST_SECONDS, id="is ready"),
        pytest.param(RUNNING, pod("worker-0", "S"), BURST_SECONDS, id="succeeds"),
        pytest.param(RUNNING, replace(RUNNING, checkpoint_at="2030-01-02T03:04:05Z"), BURST_SECONDS, id="annotated"),
    ],
)
def test_what_does_not_fail_waits_for_the_peers(
    previous: PodSummary | None, current: PodSummary, seconds: float | None
) -> None:
    assert planning_delay(previous, current) == seconds


@pytest.mark.parametrize(
    ("previous", "current"),
    [
        pytest.param(None, RUNNING, id="a pod of an earlier process"),
        pytest.param(None, pod("worker-0", "F"), id="a failed pod of an earlier process"),
        pytest.param(RUNNING, pod("worker-0", "F"), id="fails"),
        pytest.param(PENDING, pod("worker-0", "F"), id="fails before it ran"),
        pytest.param(RUNNING, replace(RUNNING, deleting=True), id="is deleted"),
        pytest.param(RUNNING, replace(RUNNING, disrupted=True, reason="EvictionByEvictionAPI"), id="is evicted"),
        pytest.param(PENDING, replace(PENDING, reason="Unschedulable"), id="no node can take it"),
        pytest.param(replace(PENDING, reason="Unschedulable"), replace(PENDING, node="node-a"), id="got a node late"),
        pytest.param(PENDING, replace(PENDING, reason="ErrImagePull"), id="its image is missing"),
        pytest.param(RUNNING, replace(RUNNING, owned=False), id="loses its owner"),
        pytest.param(RUNNING, replace(RUNNING, generation=""), id="loses its address"),
    ],
)
def test_a_failure_and_what_may_be_one_is_planned_at_once(previous: PodSummary | None, current: PodSummary) -> None:
    assert planning_delay(previous, current) == 0.0


def test_every_field_of_a_pod_but_its_version_makes_a_job_dirty() -> None:
    """Given a field, also one added later; when it changes; then the job is planned, unless the table excludes it."""
    changed: dict[str, Any] = {field.name: "changed" for field in fields(PodSummary)}
    unread = [n for n, v in changed.items() if planning_delay(RUNNING, replace(RUNNING, **{n: v})) is None]
    assert unread == ["resource_version"]


def test_the_effects_of_own_requests_wait_and_a_failure_does_not() -> None:
    """Given pods that this process creates; when one fails, and when one is gone; then only the failure is urgent."""
    urgent: list[NamespacedName] = []
    delays: list[float] = []
    pods = PodCache(urgent.append, on_progress=lambda _, seconds: delays.append(seconds))
    pods.upsert(_raw(1))
    pods.upsert(_raw(2, deletionTimestamp="2030-01-02T03:04:35Z"))
    pods.on_delete(_raw(3, deletionTimestamp="2030-01-02T03:04:35Z"))
    assert (urgent, delays) == ([], [LATER_SECONDS, BURST_SECONDS, BURST_SECONDS])
    pods.on_update(_raw(4, uid="next"))
    pods.on_delete(_raw(5, uid="next"))
    assert (urgent, delays[3:]) == ([KEY], [LATER_SECONDS])


def _raw(version: int, **metadata: Any) -> dict[str, Any]:
    labels = {"job": "fashion", "job-uid": "u", "role": "worker", "index": "0", "attempt": "0"}
    meta = {"name": "fashion-worker-0", "namespace": "team", "uid": "first", "resourceVersion": str(version)}
    return {"metadata": meta | {"labels": {f"tfdist.dev/{k}": v for k, v in labels.items()}} | metadata}
