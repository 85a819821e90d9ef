"""A job whose checkpoint directory another job writes has no pods until that one has ended."""

from collections.abc import Mapping
from typing import Any

import pytest
from support.factories import CHECKPOINT, FIRST_ATTEMPT, Lifecycle, created
from support.statuses import status_of

from tfdist.observed.job_view import DirectoryUser

RUNNING: dict[str, Any] = {
    **FIRST_ATTEMPT,
    "conditions": [{"type": "PodsReady", "status": "True", "reason": "AllReplicasRunning"}],
}
BETWEEN_ATTEMPTS: dict[str, Any] = {
    **FIRST_ATTEMPT,
    "conditions": [{"type": "PodsReady", "status": "False", "reason": "Restarting"}],
}
WAITING: dict[str, Any] = {
    **FIRST_ATTEMPT,
    "conditions": [{"type": "PodsReady", "status": "False", "reason": "CheckpointDirectoryInUse"}],
}
SUSPENDED: dict[str, Any] = {
    **FIRST_ATTEMPT,
    "conditions": [{"type": "Suspended", "status": "True", "reason": "Suspended"}],
}
FAILED: dict[str, Any] = {**FIRST_ATTEMPT, "conditions": [{"type": "Failed", "status": "True", "reason": "Bug"}]}


def user(status: Mapping[str, Any], *, older: bool = True, suspended: bool = False) -> tuple[DirectoryUser]:
    return (DirectoryUser(name="first", status=status_of(status), suspended=suspended, is_older=older),)


@pytest.mark.parametrize(
    ("other", "starts"),
    [
        pytest.param(user(RUNNING), False, id="it runs"),
        pytest.param(user(RUNNING, older=False), False, id="it runs, and is newer: this one was suspended before"),
        pytest.param(user(BETWEEN_ATTEMPTS), False, id="it has no pods: its next attempt begins soon"),
        pytest.param(user({}), False, id="it is older and begins"),
        pytest.param(user({}, older=False), True, id="it is newer and begins: it waits for this one"),
        pytest.param(user(WAITING, older=False), True, id="it is newer and waits for this one"),
        pytest.param(user({}, suspended=True), True, id="it is suspended and has not begun"),
        pytest.param(user(SUSPENDED, suspended=True), True, id="it is suspended"),
        pytest.param(user(FAILED), True, id="it has ended"),
        pytest.param((), True, id="there is none"),
    ],
)
def test_of_two_jobs_with_one_directory_one_runs(other: tuple[DirectoryUser, ...], starts: bool) -> None:
    story = Lifecycle(checkpoint=CHECKPOINT)
    assert bool(created(story.reconcile(directory_users=other))) is starts


def test_the_job_that_waits_names_the_other_and_starts_after_it() -> None:
    # given
    story = Lifecycle(checkpoint=CHECKPOINT)
    # when another job writes the directory
    todo = story.reconcile(directory_users=user(RUNNING))
    # then
    assert created(todo) == []
    assert story.condition_status("PodsReady") == ("False", "CheckpointDirectoryInUse")
    assert story.message("PodsReady") == (
        "checkpoint.directory: /ckpt/fashion on the claim ckpt is written by the job first; wait for its end, delete "
        "it, or choose another directory"
    )
    assert todo.requeue_after_seconds is None, "the cache reports the end of the other"
    assert story.status["phase"] == "Starting"
    # when the other has ended
    assert created(story.reconcile(directory_users=user(FAILED))) != []
    assert story.condition_status("PodsReady") == ("False", "Starting")


def test_a_job_that_has_begun_is_never_stopped_for_another() -> None:
    story = Lifecycle("worker-0:R worker-1:R", checkpoint=CHECKPOINT)
    todo = story.reconcile("worker-0:F worker-1:R", directory_users=user(RUNNING))
    todo = story.reconcile("", after=60, directory_users=user(RUNNING))
    assert created(todo) != [], "its next attempt begins"
    assert story.condition_status("PodsReady")[1] != "CheckpointDirectoryInUse"


def test_a_resumed_job_waits_for_the_one_that_began_meanwhile() -> None:
    story = Lifecycle("worker-0:R worker-1:R", checkpoint=CHECKPOINT)
    story.spec["runPolicy"] = {"suspend": True}
    story.reconcile("")
    story.reconcile("")
    assert story.condition_status("Suspended") == ("True", "Suspended")
    story.spec["runPolicy"] = {"suspend": False}
    assert created(story.reconcile("", directory_users=user(RUNNING, older=False))) == []
    assert created(story.reconcile("", directory_users=user(RUNNING, older=False))) == []
    assert story.condition_status("PodsReady") == ("False", "CheckpointDirectoryInUse")
    assert created(story.reconcile("", directory_users=user(FAILED, older=False))) != []


def test_the_evaluator_waits_too() -> None:
    story = Lifecycle(
        checkpoint=CHECKPOINT, evaluator={}, evaluation={"mode": "Continuous", "metric": "accuracy", "goal": "Maximize"}
    )
    assert created(story.reconcile(directory_users=user(RUNNING))) == []
    assert any("evaluator" in name for name in created(story.reconcile()))


def test_the_start_deadline_ends_the_wait() -> None:
    story = Lifecycle(checkpoint=CHECKPOINT, runPolicy={"startDeadlineSeconds": 60})
    story.reconcile(directory_users=user(RUNNING))
    story.reconcile(after=61, directory_users=user(RUNNING))
    assert story.condition_status("Failed") == ("True", "CheckpointDirectoryInUse")
    assert "by the job first" in story.message("Failed")
