"""Clean-up of finished jobs: pods, Service and the job itself; orphans, and jobs of other controllers."""

import pytest
from support.factories import Lifecycle, created, deleted, event_reasons, pod

from tfdist.desired.objects import ObjectName
from tfdist.desired.owned_kinds import NETWORK_POLICY, SERVICE
from tfdist.planner import Plan
from tfdist.validation import FieldError

BOTH = "worker-0:R worker-1:R"
OF_REPLICAS = {ObjectName(SERVICE, "fashion"), ObjectName(NETWORK_POLICY, "fashion")}


def ended(pods: str = "worker-0:S worker-1:S", **run_policy: object) -> Lifecycle:
    story = Lifecycle(BOTH, runPolicy=run_policy)
    story.reconcile(pods)
    assert story.status["phase"] in {"Succeeded", "Failed"}
    return story


def nothing(todo: Plan) -> bool:
    """Return whether a plan does nothing if nothing unwanted is left."""
    return todo == Plan(obsolete=todo.obsolete, requeue_after_seconds=todo.requeue_after_seconds)


@pytest.mark.parametrize(
    ("policy", "gone"),
    [("All", ["worker-0", "worker-1"]), ("Running", ["worker-1"]), ("None", [])],
)
def test_pods_are_deleted_by_the_clean_pod_policy_after_their_time_to_end(policy: str, gone: list[str]) -> None:
    story = ended("worker-0:S worker-1:R", cleanPodPolicy=policy)
    assert deleted(story.reconcile("worker-0:S worker-1:R", after=9)) == []
    assert deleted(story.reconcile("worker-0:S worker-1:R", after=1)) == gone


def test_the_pods_of_a_job_that_failed_get_no_time() -> None:
    story = ended("worker-0:R worker-1:F", backoffLimit=0)
    assert deleted(story.reconcile("worker-0:R worker-1:F")) == ["worker-0"]


def test_a_pod_that_is_going_is_not_deleted_again() -> None:
    story = ended("worker-0:S worker-1:R")
    assert deleted(story.reconcile([pod("worker-0", "S"), pod("worker-1", deleting=True)], after=60)) == []


def test_service_and_network_policy_are_deleted_after_the_last_pod() -> None:
    story = ended(cleanPodPolicy="All")
    assert not OF_REPLICAS & {*story.reconcile([pod("worker-0", "S", deleting=True)], after=60).obsolete}
    todo = story.reconcile("")
    assert {*todo.obsolete} >= OF_REPLICAS
    assert nothing(todo)


def test_they_are_deleted_also_if_the_ended_job_has_become_invalid() -> None:
    story = ended(cleanPodPolicy="All")
    todo = story.reconcile("", job=None, name="fashion", problems=(FieldError("spec.image", "is empty"),))
    assert {*todo.obsolete} >= OF_REPLICAS


def test_while_a_pod_is_kept_its_service_is_too() -> None:
    assert not OF_REPLICAS & {*ended().reconcile("worker-0:S worker-1:S", after=60).obsolete}


def test_no_object_of_a_job_that_has_ended_is_created_again() -> None:
    story = Lifecycle(BOTH, tensorBoard={"logDirectory": "/logs"})
    story.reconcile("worker-0:S worker-1:S")
    todo = story.reconcile("worker-0:S worker-1:S", after=60)
    assert (todo.objects, todo.tensorboard) == ((), ())


def test_every_plan_of_a_running_job_names_the_objects_that_are_to_be_there() -> None:
    story = Lifecycle(BOTH)
    assert [made["kind"] for made in story.reconcile(BOTH, after=60).objects] == ["Service", "NetworkPolicy"]


def test_the_network_policy_of_a_running_job_is_deleted_when_the_job_disables_it() -> None:
    story = Lifecycle(BOTH)
    story.spec = {"networkPolicy": "Disabled"}
    todo = story.reconcile(BOTH)
    assert [made["kind"] for made in todo.objects] == ["Service"]
    assert ObjectName(NETWORK_POLICY, "fashion") in todo.obsolete


def test_the_service_of_terminating_replicas_is_unchanged_while_they_save() -> None:
    story = Lifecycle(BOTH)
    story.spec = {"runPolicy": {"suspend": True}}
    todo = story.reconcile(BOTH)
    assert deleted(todo) == ["worker-0", "worker-1"]
    (service,) = (made for made in todo.objects if made["kind"] == "Service")
    assert service["spec"]["selector"]["tfdist.dev/address-generation"] == "0", "they resolve each other's addresses"
    assert not OF_REPLICAS & {*todo.obsolete}
    stopped = story.reconcile("worker-0:F worker-1:F")
    assert (story.status["phase"], stopped.objects) == ("Suspended", ())


def test_a_job_is_deleted_by_its_own_timer() -> None:
    story = ended(ttlSecondsAfterFinished=100)
    todo = story.reconcile("worker-0:S worker-1:S", after=60)
    assert not todo.delete_job
    assert todo.requeue_after_seconds == pytest.approx(40)
    assert story.reconcile("worker-0:S worker-1:S", after=40) == Plan(delete_job=True)


def test_a_time_to_live_of_nothing_deletes_the_job_at_once() -> None:
    assert ended(ttlSecondsAfterFinished=0).reconcile("worker-0:S worker-1:S").delete_job


def test_a_job_without_a_time_to_live_is_kept() -> None:
    assert nothing(ended().reconcile("worker-0:S worker-1:S", after=10**8))


def test_after_the_end_failed_pods_are_kept_up_to_the_configured_number() -> None:
    story = Lifecycle(BOTH, runPolicy={"keepFailedPods": 1, "backoffLimit": 9})
    story.reconcile("worker-0:R worker-1:F")
    story.reconcile("worker-0-r1:S worker-1-r1:S worker-1:F")
    old = [pod("worker-0", "F"), pod("worker-1", "F"), pod("worker-0-r1", "S"), pod("worker-1-r1", "S")]
    assert deleted(story.reconcile(old, after=60)) == ["worker-0"], "of one attempt, the root cause is kept"


def test_a_job_that_another_controller_manages_is_left_alone() -> None:
    story = Lifecycle(runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"})
    assert story.reconcile() == Plan()
    assert story.reconcile("worker-0:F") == Plan()


def test_a_job_that_names_this_controller_runs() -> None:
    assert created(Lifecycle(runPolicy={"managedBy": "tfdist.dev/controller"}).reconcile()) == ["worker-0", "worker-1"]


def test_an_invalid_job_reports_each_error_with_its_path_and_creates_nothing() -> None:
    story = Lifecycle()
    wrong = (FieldError("spec.worker.replicas", "is 0; write at least 1"), FieldError("spec.image", "is empty"))
    todo = story.reconcile(job=None, problems=wrong)
    assert (created(todo), event_reasons(todo)) == ([], ["Invalid"])
    assert story.status["phase"] == "Invalid"
    text = "spec.worker.replicas: is 0; write at least 1; spec.image: is empty"
    assert (story.message("Invalid"), story.status["summary"]["message"]) == (text, text)
    assert story.reconcile(job=None, problems=wrong) == Plan()


def test_a_corrected_job_starts() -> None:
    story = Lifecycle()
    story.reconcile(job=None, problems=(FieldError("spec.image", "is empty"),))
    todo = story.reconcile(generation=2)
    assert created(todo) == ["worker-0", "worker-1"]
    assert (story.condition_status("Invalid"), story.status["phase"]) == (("False", "SpecValid"), "Starting")


def test_an_orphan_is_adopted_so_that_it_goes_with_the_job() -> None:
    story = Lifecycle(BOTH)
    todo = story.reconcile([pod("worker-0"), pod("worker-1", owned=False)])
    (patch,) = todo.patches
    assert patch.pod == "fashion-worker-1"
    assert patch.body["metadata"]["ownerReferences"][0]["controller"] is True


def test_a_pod_that_no_replica_of_the_job_needs_is_deleted() -> None:
    story = Lifecycle(BOTH)
    assert deleted(story.reconcile(f"{BOTH} worker-7:R")) == ["worker-7"]


def test_a_deleted_status_is_restored_from_the_pods() -> None:
    story = Lifecycle()
    todo = story.reconcile("worker-0-r3:R worker-1-r3:R")
    assert (created(todo), story.status["attempt"], story.status["phase"]) == ([], 3, "Running")
