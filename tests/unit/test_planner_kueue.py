"""Kueue admits a job by its Workload: the job waits in its queue without pods, and stops when it is evicted."""

from typing import Any

import pytest
from support.factories import (
    CHECKPOINT,
    EVALUATED,
    created,
    deleted,
    event_reasons,
    manifest,
    pod,
    termination_message,
)
from support.simulated_kueue import BOTH, Story

from tfdist.observed.pod import PodSummary
from tfdist.validation import parse

SECOND = "worker-0-r1:R worker-1-r1:R"


def test_a_job_waits_in_its_queue_without_pods_and_starts_when_it_is_admitted() -> None:
    # given
    story = Story()
    # when it is created
    todo = story.reconcile()
    # then
    assert (created(todo), todo.objects) == ([], ())
    assert story.kueue.workload is not None
    assert story.kueue.workload["spec"]["queueName"] == "team-a"
    assert event_reasons(todo) == ["Queued"]
    assert story.job.status["phase"] == "Queued"
    assert "attempt" not in story.job.status, "it has not started: all of it may still change"
    # when Kueue reports why it waits
    story.kueue.wait("couldn't assign flavors: insufficient unused quota for nvidia.com/gpu, 5 more needed")
    story.reconcile()
    # then
    text = "queue team-a: couldn't assign flavors: insufficient unused quota for nvidia.com/gpu, 5 more needed"
    assert story.job.message("Suspended") == text
    assert story.job.status["scheduling"] == {
        "system": "Kueue",
        "queue": "team-a",
        "reason": text,
        "since": "2030-01-02T03:04:00Z",
    }
    # when it is admitted
    story.kueue.admit()
    todo = story.reconcile()
    # then
    assert created(todo) == ["worker-0", "worker-1"]
    assert event_reasons(todo) == ["Admitted"]
    assert story.job.status["scheduling"] == {"system": "Kueue", "queue": "team-a"}
    assert story.job.condition_status("Suspended") == ("False", "Admitted")


def test_the_position_in_the_queue_is_in_the_status_and_is_read_again_after_a_minute() -> None:
    # given
    story = Story()
    story.reconcile()
    story.kueue.wait("insufficient quota")
    # when
    story.kueue.position = 5
    todo = story.reconcile()
    # then
    assert story.job.message("Suspended") == "queue team-a, position 5: insufficient quota"
    assert story.job.status["scheduling"]["position"] == 5
    assert todo.requeue_after_seconds == 60
    # when it is admitted
    story.kueue.position = None
    story.kueue.admit()
    story.reconcile()
    assert "position" not in story.job.status["scheduling"]


def test_a_job_that_waits_is_not_written_and_sends_nothing_without_a_change() -> None:
    story = Story()
    story.reconcile()
    todo = story.reconcile()
    assert (todo.status, todo.workload, todo.events) == (None, None, ())


def test_pods_run_on_the_nodes_of_the_flavor_that_is_assigned() -> None:
    story = Story(template={"spec": {"nodeSelector": {"zone": "b"}}})
    story.reconcile()
    story.kueue.admit()
    for made in story.reconcile().creates:
        assert made["spec"]["nodeSelector"] == {"zone": "b", "pool": "spot"}
        assert {"key": "spot"} in made["spec"]["tolerations"]


def test_an_evicted_job_saves_stops_waits_in_the_queue_again_and_goes_on_in_its_next_attempt() -> None:
    # given
    story = Story(checkpoint=CHECKPOINT).running()
    assert story.kueue.condition("PodsReady") == ("True", "Started")
    # when Kueue evicts it
    story.kueue.evict()
    todo = story.reconcile(BOTH)
    # then its pods end, and it keeps its quota until they have
    assert deleted(todo) == ["worker-0", "worker-1"]
    assert event_reasons(todo) == ["Evicted"]
    assert story.job.status["phase"] == "Suspending"
    assert story.job.condition_status("Suspended") == ("False", "Evicted")
    assert story.kueue.condition("QuotaReserved") == ("True", "QuotaReserved")
    # when they have ended with the exit code of a replica that has saved
    ended = [pod(name, "F", exit_code=42, deleting=True) for name in ("worker-0", "worker-1")]
    story.reconcile(ended)
    # then
    assert story.kueue.condition("QuotaReserved") == ("False", "Pending")
    assert story.kueue.condition("Admitted") == ("False", "NoReservation")
    assert story.kueue.condition("Requeued") == ("True", "Preempted")
    assert story.kueue.condition("PodsReady") == ("False", "WaitForStart")
    assert story.job.status["phase"] == "Queued"
    assert story.job.message("Suspended") == "queue team-a: Preempted for a job of a higher priority"
    assert created(story.reconcile()) == []
    # when it is admitted again
    story.kueue.admit()
    todo = story.reconcile()
    # then
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert story.job.status["restarts"] == {"counted": 0, "uncounted": 0, "sinceCheckpoint": 0}
    assert "failures" not in story.job.status
    story.reconcile(SECOND)
    assert story.job.status["phase"] == "Running"
    assert story.kueue.condition("PodsReady") == ("True", "Started")


def test_kueue_itself_requeues_a_workload_that_was_evicted_because_its_queue_was_stopped() -> None:
    story = Story().running()
    story.kueue.evict("ClusterQueueStopped", "The ClusterQueue is stopped")
    story.reconcile(BOTH)
    story.reconcile()
    assert story.kueue.condition("Requeued") == ("False", "ClusterQueueStopped")


def test_a_gang_keeps_its_quota_while_it_restarts() -> None:
    # given
    story = Story().running()
    # when a replica fails
    story.reconcile("worker-0:R worker-1:F")
    todo = story.reconcile(after=60)
    # then
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert story.kueue.condition("Admitted") == ("True", "Admitted")
    assert story.kueue.condition("PodsReady") == ("False", "WaitForRecovery")
    # when it runs again
    story.reconcile(SECOND)
    assert story.kueue.condition("PodsReady") == ("True", "Recovered")


def test_a_workload_that_is_deleted_stops_the_job_which_waits_in_the_queue_by_a_new_one() -> None:
    # given
    story = Story().running()
    # when
    story.kueue.workload = None
    todo = story.reconcile(BOTH)
    # then
    assert deleted(todo) == ["worker-0", "worker-1"]
    assert story.kueue.workload is not None
    story.kueue.admit()
    assert created(story.reconcile()) == ["worker-0-r1", "worker-1-r1"]


def test_a_job_that_its_user_suspends_releases_its_quota() -> None:
    # given
    story = Story().running()
    # when
    story.job.spec["runPolicy"] = {"suspend": True}
    story.reconcile(BOTH, generation=2)
    assert story.kueue.workload is not None, "its pods still run"
    story.reconcile(generation=2)
    # then
    assert story.kueue.workload is None
    assert story.job.status["phase"] == "Suspended"
    # when it is resumed
    story.job.spec["runPolicy"] = {"suspend": False}
    story.reconcile(generation=3)
    # then
    assert story.job.status["phase"] == "Queued"
    assert story.kueue.workload is not None


def test_a_finished_job_releases_its_quota_once_its_pods_have_ended() -> None:
    # given
    story = Story().running()
    done = [pod(name, "S", message=termination_message(step=10)) for name in ("worker-0", "worker-1")]
    # when
    story.reconcile(done)
    story.reconcile(done)
    # then
    assert story.job.status["phase"] == "Succeeded"
    assert story.kueue.condition("Finished") == ("True", "Succeeded")
    assert story.reconcile(done).workload is None


def test_an_evaluation_after_training_uses_the_quota_of_the_workers() -> None:
    # given
    story = Story(**EVALUATED).running()
    # when training succeeds
    todo = story.reconcile([pod(name, "S", message=termination_message(step=10)) for name in ("worker-0", "worker-1")])
    # then
    assert [made["spec"]["nodeSelector"] for made in todo.creates] == [{"pool": "spot"}] * len(todo.creates)
    assert todo.creates
    assert story.kueue.condition("Admitted") == ("True", "Admitted")


@pytest.mark.parametrize("lives", [False, True])
def test_without_kueue_a_job_waits_and_one_that_runs_goes_on(lives: bool) -> None:
    story = Story().running() if lives else Story()
    todo = story.job.reconcile(BOTH if lives else "", kueue=None)
    assert (created(todo), deleted(todo)) == ([], [])
    if not lives:
        assert story.job.status["phase"] == "Queued"
        assert "install Kueue" in story.job.message("Suspended")


def test_the_error_of_a_workload_that_cannot_be_created_is_in_the_condition() -> None:
    story = Story()
    story.kueue.error = "priority class batch does not exist"
    story.reconcile()
    assert story.job.message("Suspended") == "queue team-a: priority class batch does not exist"


def test_a_workload_that_waits_follows_a_change_of_the_job_and_keeps_its_place() -> None:
    # given
    story = Story()
    story.reconcile()
    assert story.kueue.workload is not None
    # when
    story.job.spec["worker"] = {"replicas": 3}
    story.reconcile(generation=2)
    # then
    assert story.kueue.workload["spec"]["podSets"][0]["count"] == 3
    assert story.kueue.workload["metadata"]["uid"] == "w1", "it is the same one"


def test_a_flavor_that_is_not_known_yet_delays_the_start_and_stops_no_job_that_runs() -> None:
    story = Story()
    story.reconcile()
    story.kueue.admit()
    view = story.kueue.view()
    without = type(view)(view.workload)
    assert created(story.reconcile(kueue=without)) == []
    assert "ResourceFlavor spot" in story.job.message("Suspended")
    story.reconcile()
    story.reconcile(BOTH)
    assert deleted(story.reconcile(BOTH, kueue=type(view)(story.kueue.view().workload))) == []


@pytest.mark.parametrize(
    ("scheduling", "labels", "uses"),
    [
        pytest.param({}, {}, False, id="neither a queue nor a label"),
        pytest.param({"queue": "team-a"}, {}, True, id="a queue"),
        pytest.param({}, {"kueue.x-k8s.io/queue-name": "team-a"}, True, id="the label of Kueue"),
    ],
)
def test_auto_chooses_kueue_for_a_job_with_a_queue(
    scheduling: dict[str, Any], labels: dict[str, str], uses: bool
) -> None:
    made = manifest(scheduling=scheduling)
    made["metadata"]["labels"] = labels
    job = parse(made)
    story = Story(scheduling=scheduling)
    todo = story.reconcile(job=job)
    assert (todo.workload is not None) == uses
    assert (created(todo) == []) == uses


def test_a_restart_with_other_requests_waits_for_another_admission() -> None:
    # given a job whose resources have changed while it runs
    story = Story().running()
    story.job.spec["resources"] = {"requests": {"cpu": "8"}}
    assert deleted(story.reconcile(BOTH, generation=2)) == []
    # when a replica fails
    todo = story.reconcile("worker-0:R worker-1:F", generation=2)
    # then its pods end, and no other is created
    assert (deleted(todo), created(todo)) == (["worker-0"], [])
    assert created(story.reconcile([pod("worker-0", deleting=True)], after=60, generation=2)) == []
    assert story.kueue.condition("Admitted") == ("True", "Admitted")
    story.reconcile(generation=2)
    assert story.kueue.workload is None
    # when the new Workload is admitted
    story.reconcile(generation=2)
    assert story.job.status["phase"] == "Queued"
    story.kueue.admit()
    # then
    assert created(story.reconcile(generation=2)) == ["worker-0-r2", "worker-1-r2"]


@pytest.mark.parametrize("runs", [True, False], ids=["running", "queued"])
def test_a_workload_follows_a_change_of_the_priority_and_the_job_goes_on(runs: bool) -> None:
    # given
    story = Story().running() if runs else Story()
    story.reconcile(BOTH if runs else "")
    # when
    story.job.spec["scheduling"] = {"gang": "Kueue", "queue": "team-a", "priorityClassName": "urgent"}
    todo = story.reconcile(BOTH if runs else "", generation=2)
    # then
    assert story.kueue.priority_class == "priorityclasses/urgent"
    assert deleted(todo) == []
    assert story.reconcile(BOTH if runs else "", generation=2).workload is None
    # when a replica fails, the gang keeps its quota
    if runs:
        story.reconcile("worker-0:R worker-1:F", generation=2)
        assert created(story.reconcile(after=60, generation=2)) == ["worker-0-r1", "worker-1-r1"]


def test_the_error_of_a_priority_is_in_the_status_of_a_job_that_runs_and_keeps_nothing_back() -> None:
    # given a job that runs with a class that does not exist
    story = Story().running()
    story.job.spec["scheduling"] = {"gang": "Kueue", "queue": "team-a", "priorityClassName": "gone"}
    story.kueue.error = "priority class gone does not exist"
    # when it is not all ready
    todo = story.job.reconcile("worker-0:R worker-1:F", generation=2, kueue=story.kueue.view())
    # then
    assert story.job.status["scheduling"]["reason"] == story.kueue.error
    assert todo.workload is not None
    assert todo.workload.status, "PodsReady is set first"


INDEPENDENT: dict[str, Any] = {
    "strategy": "Independent",
    "training": {"script": "/code/search.py"},
    "successPolicy": "AllWorkers",
}


def done(*replicas: str) -> list[PodSummary]:
    return [pod(replica, "S", message=termination_message(step=10)) for replica in replicas]


def test_independent_replicas_that_have_completed_release_their_quota_while_others_run() -> None:
    # given
    story = Story(**INDEPENDENT).running()
    # when one completes, and the status has it
    pods = [*done("worker-0"), pod("worker-1")]
    story.reconcile(pods)
    assert story.kueue.reclaimable == {}, "another controller would not know yet that it has completed"
    story.reconcile(pods)
    # then
    assert story.kueue.reclaimable == {"worker": 1}
    assert story.reconcile(pods).workload is None
    # when the other one fails, it alone is created again
    assert created(story.reconcile([*done("worker-0"), pod("worker-1", "F")])) == ["worker-1-r1"]
    assert story.kueue.reclaimable == {"worker": 1}


def test_a_gang_whose_replicas_restart_together_keeps_the_quota_of_a_replica_that_has_completed() -> None:
    story = Story(successPolicy="AllWorkers").running()
    pods = [*done("worker-1"), pod("worker-0")]
    for _ in range(3):
        story.reconcile(pods)
    assert story.kueue.reclaimable == {}


def test_completed_replicas_that_are_to_run_again_wait_for_another_admission() -> None:
    # given a job that has released a part of its quota
    story = Story(**INDEPENDENT).running()
    pods = [*done("worker-0"), pod("worker-1")]
    for _ in range(2):
        story.reconcile(pods)
    # when its user requests a restart
    for _ in range(2):
        assert created(story.reconcile(pods, restarted_at="now")) == []
    for _ in range(2):
        assert created(story.reconcile(done("worker-0"), after=60, restarted_at="now")) == []
    # then its Workload is replaced
    story.reconcile(done("worker-0"), restarted_at="now")
    assert story.kueue.workload is not None
    assert (story.kueue.reserved, story.kueue.reclaimable) == (False, {})
    story.kueue.admit()
    assert len(created(story.reconcile(restarted_at="now"))) == 2


def test_an_evicted_job_requests_the_quota_of_all_replicas_that_run_again() -> None:
    story = Story(**INDEPENDENT).running()
    for _ in range(2):
        story.reconcile([*done("worker-0"), pod("worker-1")])
    story.kueue.evict()
    story.reconcile([*done("worker-0"), pod("worker-1")])
    story.reconcile(done("worker-0"))
    assert (story.kueue.reserved, story.kueue.reclaimable) == (False, {})
    story.kueue.admit()
    assert created(story.reconcile()) == ["worker-0-r1", "worker-1-r1"]


def test_after_training_only_the_evaluation_keeps_quota_also_when_it_is_evicted() -> None:
    # given training that has succeeded, and an evaluation on one of three workers
    evaluation = {"mode": "AfterTraining", "replicas": 1}
    story = Story(checkpoint=CHECKPOINT, evaluation=evaluation, worker={"replicas": 3})
    story.reconcile()
    story.kueue.admit()
    story.reconcile()
    workers = [f"worker-{i}" for i in range(3)]
    story.reconcile(" ".join(f"{name}:R" for name in workers))
    # when
    pods = done(*workers)
    for _ in range(2):
        story.reconcile(pods)
    pods = [*pods, pod("evaluation-0")]
    for _ in range(3):
        story.reconcile(pods)
    # then
    assert story.kueue.reclaimable == {"worker": 2}
    # when the evaluation is evicted
    story.kueue.evict()
    story.reconcile(pods)
    story.reconcile(done(*workers))
    assert (story.kueue.reserved, story.kueue.reclaimable) == (False, {"worker": 2})
    story.kueue.admit()
    assert len(created(story.reconcile(done(*workers)))) == 1
