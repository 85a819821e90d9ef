"""`status.usage`: GPUs and CPUs by the times of the pods, and the time of kept and of repeated steps."""

from datetime import timedelta
from typing import Any

import pytest
from support.factories import NOW, Lifecycle, launcher_report, planned, pod, report
from support.factories import failure_in_place as failure

from tfdist.api.history_status import Usage
from tfdist.observed.pod import PodSummary
from tfdist.observed.pod_resources import PodResources, pod_resources
from tfdist.status.accounts import without_accounts
from tfdist.status.usage import usage_of
from tfdist.timestamps import rfc3339

TWO_GPUS = PodResources(2.0, 4.0)
BOTH = "worker-0:R worker-1:R"


def at(seconds: float) -> str:
    return rfc3339(NOW + timedelta(seconds=seconds))


def user(name: str, start: float, end: float | None = None, letter: str = "", **fields: Any) -> PodSummary:
    """A pod with two GPUs and four cores, from its node to its end in seconds after NOW."""
    finished = "" if end is None else at(end)
    letter = letter or ("R" if end is None else "S")
    known = {"scheduled_at": at(start), "finished_at": finished, "resources": TWO_GPUS}
    return pod(name, letter, **known | fields)


def after(seconds: float, *pods: PodSummary, stored: dict[str, Any] | None = None) -> dict[str, Any]:
    used = usage_of(Usage.model_validate(stored) if stored else None, pods, NOW + timedelta(seconds=seconds))
    return used.model_dump(by_alias=True, exclude_none=True) if used else {}


def trained(step: int, at_seconds: float, *, saved: int | None = None, millis: float = 100.0, attempt: int = 0) -> Any:
    """A report of a step, with the newest checkpoint."""
    checkpoint = {} if saved is None else {"last_checkpoint": {"step": saved, "path": "/c"}}
    found = report(step, 1000, attempt=attempt, step_time_millis=millis, **checkpoint)
    return type(found)(found.content, at(at_seconds))


def test_a_pod_counts_from_its_node_until_its_end() -> None:
    used = after(100, user("worker-0", 10), user("worker-1", 20, 50))
    assert (used["gpuSeconds"], used["cpuSeconds"]) == (2 * 90 + 2 * 30, 4 * 90 + 4 * 30)
    assert (used["gpus"], used["cpus"], used["updatedAt"]) == (2.0, 4.0, at(100))


def test_a_pod_without_a_node_uses_nothing() -> None:
    waiting = pod("worker-0", "P", node="", resources=TWO_GPUS)
    assert after(100, waiting)["gpuSeconds"] == 0.0
    assert after(100) == {}, "there is nothing to store"


def test_a_pod_that_waits_for_its_image_uses_its_node() -> None:
    assert after(100, user("worker-0", 10, letter="P"))["gpuSeconds"] == 180.0


def test_a_pod_whose_sidecars_still_run_keeps_its_resources() -> None:
    assert after(100, user("worker-0", 10, 50, sidecars_run=True))["gpuSeconds"] == 180.0


def test_a_pod_that_ended_while_no_controller_ran_counts_until_its_end() -> None:
    before = after(100, user("worker-0", 10))
    used = after(10_000, user("worker-0", 10, 150), stored=before)
    assert used["gpuSeconds"] == 2 * 140


def test_a_pod_that_was_deleted_while_no_controller_ran_is_wrong_by_no_more_than_that_time() -> None:
    before = after(100, user("worker-0", 10), user("worker-1", 10))
    used = after(160, user("worker-1", 10), stored=before)
    assert used["gpuSeconds"] == 2 * 150 + 2 * (90 + 60)
    assert after(260, user("worker-1", 10), stored=used)["gpuSeconds"] == used["gpuSeconds"] + 200, "and only once"


def test_a_pod_that_began_and_ended_between_two_writes_counts() -> None:
    before = after(100, user("worker-0", 10))
    used = after(200, user("worker-0", 10), user("worker-1", 120, 130), stored=before)
    assert used["gpuSeconds"] - before["gpuSeconds"] == 200 + 20


def test_a_pod_that_ended_a_moment_before_the_last_write_is_not_taken_for_a_deleted_one() -> None:
    before = after(100, user("worker-0", 10))
    assert after(10_000, user("worker-0", 10, 99), stored=before)["gpuSeconds"] == before["gpuSeconds"]


def test_the_end_of_a_pod_in_the_future_by_the_clock_of_its_node_ends_its_use_now() -> None:
    before = after(100, user("worker-0", 10))
    ended = user("worker-0", 10, 10_000, "F")
    used = after(110, ended, stored=before)
    assert (used["gpuSeconds"], used["gpus"]) == (200.0, 0.0)
    assert after(5000, ended, stored=used)["gpuSeconds"] == 200.0


def test_a_clock_that_is_behind_counts_no_time_twice() -> None:
    before = after(100, user("worker-0", 10))
    early = after(40, user("worker-0", 10), stored=before)
    assert (early["gpuSeconds"], early["updatedAt"]) == (180.0, at(100))


def test_a_usage_that_an_older_definition_has_pruned_begins_with_the_pods_that_exist() -> None:
    pruned = {"gpuSeconds": 5.0, "cpuSeconds": 7.0, "productiveSeconds": 3.0}
    used = after(100, user("worker-0", 10), stored=pruned)
    assert used["gpuSeconds"] == 180.0
    assert "productiveSeconds" not in used, "a write adds to it, and nothing else of it is known"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"limits": {"nvidia.com/gpu": "2", "cpu": "8"}, "requests": {"cpu": "500m"}}, PodResources(2.0, 0.5)),
        ({"limits": {"amd.com/gpu": 1, "example.com/gpu": "1", "cpu": "3"}}, PodResources(2.0, 3.0)),
        ({"limits": {"nvidia.com/gpu-memory": "9", "memory": "1Gi"}}, PodResources(0.0, 0.0)),
        ({"requests": {"cpu": "1 core"}}, PodResources(0.0, 0.0)),
        (None, PodResources(0.0, 0.0)),
    ],
)
def test_the_resources_of_a_pod_are_those_of_its_main_container(resources: Any, expected: PodResources) -> None:
    sidecar = {"name": "logs", "resources": {"limits": {"nvidia.com/gpu": "7"}, "requests": {"cpu": "7"}}}
    main = {"name": "tensorflow"} | ({"resources": resources} if resources is not None else {})
    assert pod_resources({"containers": [sidecar, main]}) == expected


def test_equal_pods_share_their_resources_in_memory() -> None:
    spec = {"containers": [{"name": "tensorflow", "resources": {"requests": {"cpu": "2"}}}]}
    assert pod_resources(spec) is pod_resources(spec | {"nodeName": "node-a"})


def test_usage_alone_causes_no_write() -> None:
    story = Lifecycle(BOTH)
    pods = [user("worker-0", 0), user("worker-1", 0)]
    assert story.reconcile(pods, after=600).status is None
    assert story.reconcile(pods, after=600, report=report(5)).status is not None
    assert story.status["usage"]["gpuSeconds"] == 2 * 2 * 1200
    assert planned(pods, without_accounts(story.status), report=report(5)).status is None, "nor does a missing one"


def test_a_suspended_job_uses_nothing() -> None:
    # given
    story = Lifecycle(BOTH)
    story.spec["runPolicy"] = {"suspend": True}
    story.reconcile([user("worker-0", 0), user("worker-1", 0)], after=10, generation=2)
    # when
    ended = [user("worker-0", 0, 15, "F"), user("worker-1", 0, 15, "F")]
    story.reconcile(ended, after=10, generation=2)
    # then
    assert story.status["phase"] == "Suspended"
    assert (story.status["usage"]["gpus"], story.status["usage"]["gpuSeconds"]) == (0.0, 2 * 2 * 15)
    # when it is resumed much later
    story.spec["runPolicy"] = {"suspend": False}
    story.reconcile(after=5000, generation=3)
    assert story.status["usage"]["gpuSeconds"] == 2 * 2 * 15


def test_the_pods_that_outlive_a_job_are_counted_until_the_last_has_ended() -> None:
    # given
    story = Lifecycle(BOTH)
    story.reconcile([user("worker-0", 0, 10), user("worker-1", 0)], after=10)
    assert (story.status["phase"], story.status["usage"]["gpus"]) == ("Succeeded", 2.0)
    # when the other one is gone
    story.reconcile([user("worker-0", 0, 10), user("worker-1", 0, 30, "F")], after=25)
    # then
    assert (story.status["usage"]["gpus"], story.status["usage"]["gpuSeconds"]) == (0.0, 2 * 10 + 2 * 30)
    assert story.reconcile([user("worker-0", 0, 10)], after=600).status is None


def test_a_stale_pod_that_outlives_its_job_is_counted_until_it_is_gone() -> None:
    """Given a pod of an earlier attempt whose node does not answer, when it goes, then the counts do not change."""
    story = Lifecycle(BOTH)
    old = user("worker-1", 0, deleting=True)
    story.reconcile([pod("worker-0", "F"), old], after=20)
    last = [pod("worker-0-r1", "S"), pod("worker-1-r1", "S")]
    story.reconcile([old, *last], after=100)
    assert (story.status["phase"], story.status["usage"]["gpus"]) == ("Succeeded", 2.0)
    assert story.reconcile(last, after=10).status is not None
    assert story.status["usage"]["gpus"] == 0.0
    assert story.reconcile(last, after=10).status is None


def test_steps_before_the_checkpoint_of_a_restart_are_productive_and_the_others_lost() -> None:
    # given 120 steps of 100 ms, of which 100 are in a checkpoint
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=20, report=trained(120, 20, saved=100))
    assert story.status["usage"]["productiveSeconds"] == 12.0
    # when
    story.reconcile([pod("worker-0"), pod("worker-1", "F")], after=10)
    story.reconcile([pod("worker-0"), pod("worker-1", "F")], after=10)
    assert story.status["attempt"] == 1
    again = "worker-0-r1:R worker-1-r1:R"
    story.reconcile(again, after=10, report=trained(110, 50, saved=100, attempt=1))
    # then 20 steps are repeated
    used = story.status["usage"]
    assert (used["productiveSeconds"], used["lostSeconds"], used["step"]) == (11.0, 2.0, 110)
    # when
    story.reconcile(again, after=10, report=trained(150, 60, saved=140, attempt=1))
    assert (story.status["usage"]["productiveSeconds"], story.status["usage"]["lostSeconds"]) == (15.0, 2.0)


def in_place(step: int, at_seconds: float, *failures: Any) -> Any:
    """A report of launchers that restarted the gang after each failure; step 80 is in a checkpoint."""
    found, gang = trained(step, at_seconds, saved=80), launcher_report(*failures, number=len(failures)).content.gang
    return type(found)(found.content.model_copy(update={"gang": gang}), found.read_at)


def test_steps_that_a_round_in_place_repeats_are_lost() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=30, report=in_place(100, 30))
    story.reconcile(BOTH, after=30, report=in_place(85, 60, failure(1)))
    assert (story.status["usage"]["productiveSeconds"], story.status["usage"]["lostSeconds"]) == (8.5, 2.0)


def test_a_job_that_continues_from_a_checkpoint_of_an_earlier_one_has_not_trained_its_steps() -> None:
    story = Lifecycle(BOTH)
    checkpoint = {"step": 5000, "path": "/c", "time": "2029-01-01T00:00:00Z"}
    story.reconcile(BOTH, after=20, report=report(5010, 9000, step_time_millis=100.0, last_checkpoint=checkpoint))
    assert story.status["usage"]["productiveSeconds"] == 1.0


def test_steps_cannot_have_taken_longer_than_their_attempt() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, after=20, report=trained(2**50, 20, millis=1e14))
    assert story.status["usage"]["productiveSeconds"] == 20.0
