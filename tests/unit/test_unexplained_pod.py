"""A pod in ContainerCreating: the kubelet's event has the reason, and the status gets it at a bounded cost."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.bench import EVENTS, JOB, KEY, PODS, Bench, bench_served
from support.factories import UID, Lifecycle, condition, pod
from support.fake_api import Json

from tfdist.observed.job_view import KubeletWarning
from tfdist.planner import Plan

CAUSE = 'MountVolume.SetUp failed for volume "data" : configmap "labels" not found'
TEXT = f"FailedMount: {CAUSE}"
CREATED = "2030-01-02T03:04:05Z"


def creating(reason: str = "ContainerCreating", **changes: Any) -> Any:
    return pod("worker-1", "P", reason=reason, created_at=CREATED, **changes)


def waiting(after: float, warning: KubeletWarning | None = None, **changes: Any) -> tuple[Lifecycle, Plan]:
    """Return a job whose second pod has waited for so many seconds, and its plan."""
    story = Lifecycle()
    story.reconcile()
    todo = story.reconcile([pod("worker-0"), creating(**changes)], after=after, kubelet_warning=warning)
    return story, todo


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_the_events_of_a_pod_are_read_after_it_has_waited_for_its_containers_for_half_a_minute(reason: str) -> None:
    _, early = waiting(29, reason=reason)
    assert (early.unexplained_pod, early.requeue_after_seconds) == ("", 1)
    _, late = waiting(30, reason=reason)
    assert (late.unexplained_pod, late.requeue_after_seconds) == ("fashion-worker-1", 60)


@pytest.mark.parametrize("changes", [{"node": ""}, {"reason": "ErrImagePull"}, {"reason": ""}, {"deleting": True}])
def test_the_events_of_a_pod_whose_status_has_the_reason_are_not_read(changes: dict[str, Any]) -> None:
    assert waiting(100, **changes)[1].unexplained_pod == ""


def test_a_missing_config_map_of_a_volume_is_an_error_of_the_configuration() -> None:
    story, _ = waiting(30, KubeletWarning("uid-worker-1", TEXT))
    assert story.condition_status("PodsReady") == ("False", "ConfigError")
    text = f"worker-1 cannot start: {TEXT}; create it, or correct the volume"
    assert story.message("PodsReady") == story.status["summary"]["message"] == text
    story.reconcile([pod("worker-0"), creating()], after=300, kubelet_warning=KubeletWarning("uid-worker-1", TEXT))
    assert story.condition_status("Failed") == ("True", "ConfigError")


def test_any_other_warning_is_in_the_message_and_fails_no_job() -> None:
    warning = "FailedCreatePodSandBox: plugin type=bridge failed"
    story, _ = waiting(30, KubeletWarning("uid-worker-1", warning))
    assert story.condition_status("PodsReady") == ("False", "Starting")
    assert story.message("PodsReady").endswith(f"has not started: ContainerCreating: {warning}")


def test_the_warning_of_another_pod_does_not_count() -> None:
    story, _ = waiting(30, KubeletWarning("uid-of-an-earlier-pod", TEXT))
    assert "labels" not in story.message("PodsReady")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_served() as made:
        yield made


def warn(bench: Bench, name: str, text: str, moment: str, kind: str = "Warning", uid: str = "") -> None:
    """Let the kubelet publish an event about the pod of worker 0."""
    uid = uid or bench.api.objects[f"{PODS}/fashion-worker-0"]["metadata"]["uid"]
    event = {"reason": "FailedMount", "message": text, "type": kind, "lastTimestamp": moment}
    bench.api.put(f"{EVENTS}/{name}", {"metadata": {"name": name}, "involvedObject": {"uid": uid}, **event})


async def stuck(bench: Bench) -> None:
    """Let a job have a pod that is in ContainerCreating since an hour."""
    bench.job()
    await bench.reconcile()
    path = f"{PODS}/fashion-worker-0"
    found: Json = bench.api.objects[path]
    state = {"name": "tensorflow", "state": {"waiting": {"reason": "ContainerCreating"}}}
    found["metadata"]["creationTimestamp"] = "2030-01-02T02:04:05Z"
    content = {"spec": {**found["spec"], "nodeName": "node-a"}, "status": {"containerStatuses": [state]}}
    bench.pods.upsert(bench.api.put(path, found | content))


def reads(bench: Bench) -> int:
    return bench.api.requests("events").count("GET")


async def test_the_status_has_the_cause_of_the_failed_mount_and_one_request_a_minute_reads_it(bench: Bench) -> None:
    await stuck(bench)
    warn(bench, "cause", CAUSE, "2030-01-02T03:00:00Z")
    warn(bench, "later", "Unable to attach or mount volumes: timed out", "2030-01-02T03:02:00Z")
    warn(bench, "normal", "MountVolume succeeded", "2030-01-02T03:03:00Z", kind="Normal")
    warn(bench, "other", "MountVolume failed elsewhere", "2030-01-02T03:03:00Z", uid="another")
    for _ in range(3):
        assert await bench.reconcile()
    assert reads(bench) == 1
    assert TEXT in condition(bench.api.objects[JOB]["status"], "PodsReady")["message"]


async def test_a_controller_without_the_right_to_read_events_starts_the_job_as_before(bench: Bench) -> None:
    await stuck(bench)
    bench.api.reject = lambda method, path: (
        (403, "Forbidden", "events is forbidden", "") if method == "GET" and path.endswith("/events") else None
    )
    assert await bench.reconcile()
    assert await bench.reconcile()
    assert (reads(bench), bench.states.get(KEY, UID).kubelet_warning) == (1, None)
