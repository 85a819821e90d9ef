"""After the end, and what is none of the controller's: pods, Service, the job itself, orphans, jobs of others."""

import pytest
from support.factories import Story, created, deleted, pod, told

from tfdist.validation import Problem
from tfdist_operator.planner import Plan

BOTH = "worker-0:R worker-1:R"


def ended(pods: str = "worker-0:S worker-1:S", **run_policy: object) -> Story:
    story = Story(BOTH, runPolicy=run_policy)
    story.look(pods)
    assert story.status["phase"] in {"Succeeded", "Failed"}
    return story


def nothing(todo: Plan) -> bool:
    return todo == Plan(requeue_after_seconds=todo.requeue_after_seconds)


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("All", ["worker-0", "worker-1"]), ("Running", ["worker-1"]), ("None", [])],
)
def test_pods_go_as_the_user_wants_once_they_had_time_to_end(policy: str, gone: list[str]) -> None:
    story = ended("worker-0:S worker-1:R", cleanPodPolicy=policy)
    assert deleted(story.look("worker-0:S worker-1:R", after=9)) == []
    assert deleted(story.look("worker-0:S worker-1:R", after=1)) == gone


def test_the_pods_of_a_job_that_failed_get_no_time() -> None:
    story = ended("worker-0:R worker-1:F", backoffLimit=0)
    assert deleted(story.look("worker-0:R worker-1:F")) == ["worker-0"]


def test_a_pod_that_is_going_is_not_deleted_again() -> None:
    story = ended("worker-0:S worker-1:R")
    assert deleted(story.look([pod("worker-0", "S"), pod("worker-1", deleting=True)], after=60)) == []


def test_service_and_network_policy_go_with_the_last_pod_and_once() -> None:
    story = ended(cleanPodPolicy="All")
    assert not story.look([pod("worker-0", "S", deleting=True)], after=60).sweep
    assert story.look("").sweep
    assert nothing(story.look("", swept=True))


def test_while_a_pod_is_kept_its_service_is_too() -> None:
    assert not ended().look("worker-0:S worker-1:S", after=60).sweep


def test_a_job_is_deleted_by_its_own_timer() -> None:
    story = ended(ttlSecondsAfterFinished=100)
    todo = story.look("worker-0:S worker-1:S", after=60)
    assert not todo.delete_job
    assert todo.requeue_after_seconds == pytest.approx(40)
    assert story.look("worker-0:S worker-1:S", after=40) == Plan(delete_job=True)


def test_a_time_to_live_of_nothing_deletes_the_job_at_once() -> None:
    assert ended(ttlSecondsAfterFinished=0).look("worker-0:S worker-1:S").delete_job


def test_a_job_without_a_time_to_live_is_kept() -> None:
    assert nothing(ended().look("worker-0:S worker-1:S", after=10**8))


def test_after_the_end_failed_pods_are_kept_up_to_the_number_asked_for() -> None:
    story = Story(BOTH, runPolicy={"keepFailedPods": 1, "backoffLimit": 9})
    story.look("worker-0:R worker-1:F")
    story.look("worker-0-r1:S worker-1-r1:S worker-1:F")
    old = [pod("worker-0", "F"), pod("worker-1", "F"), pod("worker-0-r1", "S"), pod("worker-1-r1", "S")]
    assert deleted(story.look(old, after=60)) == ["worker-0"], "of one attempt, the root cause is kept"


def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    story = Story(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
    assert story.look() == Plan()
    assert story.look("worker-0:F") == Plan()


def test_a_job_that_names_this_controller_runs() -> None:
    assert created(Story(runPolicy={"managedBy": "tfdist.dev/controller"}).look()) == ["worker-0", "worker-1"]


def test_an_invalid_job_says_what_is_wrong_and_where_and_makes_nothing() -> None:
    story = Story()
    wrong = (Problem("spec.worker.replicas", "is 0; write at least 1"), Problem("spec.image", "is empty"))
    todo = story.look(job=None, problems=wrong)
    assert (created(todo), told(todo)) == ([], ["Invalid"])
    assert story.status["phase"] == "Invalid"
    text = "spec.worker.replicas: is 0; write at least 1; spec.image: is empty"
    assert (story.message("Invalid"), story.status["summary"]["message"]) == (text, text)
    assert story.look(job=None, problems=wrong) == Plan()


def test_a_corrected_job_starts() -> None:
    story = Story()
    story.look(job=None, problems=(Problem("spec.image", "is empty"),))
    todo = story.look(generation=2)
    assert created(todo) == ["worker-0", "worker-1"]
    assert (story.says("Invalid"), story.status["phase"]) == (("False", "Corrected"), "Starting")


def test_the_pods_of_a_job_that_becomes_invalid_run_on() -> None:
    story = Story(BOTH)
    todo = story.look(BOTH, job=None, problems=(Problem("spec.image", "is empty"),), generation=2)
    assert (story.status["phase"], created(todo), deleted(todo)) == ("Invalid", [], [])
    story.look(BOTH, generation=3)
    assert story.status["phase"] == "Running"


def test_an_orphan_is_adopted_so_that_it_goes_with_the_job() -> None:
    story = Story(BOTH)
    todo = story.look([pod("worker-0"), pod("worker-1", owned=False)])
    (patch,) = todo.patches
    assert patch.pod == "fashion-worker-1"
    assert patch.body["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_pod_that_no_replica_of_the_job_needs_is_deleted() -> None:
    story = Story(BOTH)
    assert deleted(story.look(f"{BOTH} worker-7:R")) == ["worker-7"]


def test_a_status_that_somebody_wiped_is_made_again_from_the_pods() -> None:
    story = Story()
    todo = story.look("worker-0-r3:R worker-1-r3:R")
    assert (created(todo), story.status["attempt"], story.status["phase"]) == ([], 3, "Running")
