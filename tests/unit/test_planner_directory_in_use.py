"""A job has no pods while another one writes into the directory of its checkpoints, or of its exported models."""

from typing import Any, Final

import pytest
from support.factories import CHECKPOINT, FIRST_ATTEMPT, TRAINING, Lifecycle, created
from support.statuses import status_of

from tfdist.observed.job_view import DirectoryUser
from tfdist.planner.directory_in_use import has_begun
from tfdist.render.written_directories import DirectoryField, StorageLocation, WrittenDirectory

EXPORT: Final[dict[str, Any]] = {**TRAINING, "export": {"directory": "s3://models/{name}"}}

LOCATION = StorageLocation('{"persistentVolumeClaim": {"claimName": "ckpt"}}', "x")
FIRST = DirectoryUser(
    name="first",
    field=DirectoryField.CHECKPOINT,
    written=WrittenDirectory(DirectoryField.CHECKPOINT, "/ckpt/fashion", LOCATION),
)
EXPORTS = DirectoryUser(
    name="first",
    field=DirectoryField.EXPORT,
    written=WrittenDirectory(DirectoryField.EXPORT, "s3://models/fashion", StorageLocation("", "s3://models/fashion")),
)


def test_the_job_that_waits_names_the_other_and_starts_after_it() -> None:
    # given
    story = Lifecycle(checkpoint=CHECKPOINT)
    # when another job writes the directory
    todo = story.reconcile(directory_user=FIRST)
    # then
    assert created(todo) == []
    assert story.condition_status("PodsReady") == ("False", "CheckpointDirectoryInUse")
    assert story.message("PodsReady") == (
        "checkpoint.directory: /ckpt/fashion on the claim ckpt is in use by the job first, as its "
        "checkpoint.directory; wait until that job has ended, delete it, or choose another directory"
    )
    assert todo.requeue_after_seconds is None, "the cache reports the end of the other"
    assert story.status["phase"] == "Starting"
    # when the other has ended
    assert created(story.reconcile(directory_user=None)) != []
    assert story.condition_status("PodsReady") == ("False", "Starting")


def test_the_job_that_waits_for_an_export_directory_names_it_and_starts_after_the_other() -> None:
    # given
    story = Lifecycle(checkpoint=CHECKPOINT, training=EXPORT)
    # when another job exports into the directory
    assert created(story.reconcile(directory_user=EXPORTS)) == []
    # then
    assert story.condition_status("PodsReady") == ("False", "ExportDirectoryInUse")
    assert story.message("PodsReady") == (
        "training.export.directory: s3://models/fashion is in use by the job first, as its "
        "training.export.directory; wait until that job has ended, delete it, or choose another directory"
    )
    # when both still wait, then this one has not begun
    assert created(story.reconcile(directory_user=EXPORTS)) == []
    # when the other has ended
    assert created(story.reconcile()) != []
    assert story.condition_status("PodsReady") == ("False", "Starting")


@pytest.mark.parametrize(
    ("reason", "begun"),
    [("CheckpointDirectoryInUse", False), ("ExportDirectoryInUse", False), ("Restarting", True)],
)
def test_training_has_not_begun_while_the_job_waits_for_a_directory(reason: str, begun: bool) -> None:
    waiting = {"conditions": [{"type": "PodsReady", "status": "False", "reason": reason}]}
    assert has_begun(status_of(FIRST_ATTEMPT | waiting)) is begun


def test_a_job_that_has_begun_is_never_stopped_for_another() -> None:
    story = Lifecycle("worker-0:R worker-1:R", checkpoint=CHECKPOINT)
    todo = story.reconcile("worker-0:F worker-1:R", directory_user=FIRST)
    todo = story.reconcile("", after=60, directory_user=FIRST)
    assert created(todo) != [], "its next attempt begins"
    assert story.condition_status("PodsReady")[1] != "CheckpointDirectoryInUse"


def test_a_resumed_job_waits_for_the_one_that_began_meanwhile() -> None:
    story = Lifecycle("worker-0:R worker-1:R", checkpoint=CHECKPOINT)
    story.spec["runPolicy"] = {"suspend": True}
    story.reconcile("")
    story.reconcile("")
    assert story.condition_status("Suspended") == ("True", "Suspended")
    story.spec["runPolicy"] = {"suspend": False}
    assert created(story.reconcile("", directory_user=FIRST)) == []
    assert created(story.reconcile("", directory_user=FIRST)) == []
    assert story.condition_status("PodsReady") == ("False", "CheckpointDirectoryInUse")
    assert created(story.reconcile("", directory_user=None)) != []


def test_the_evaluator_waits_too() -> None:
    story = Lifecycle(
        checkpoint=CHECKPOINT, evaluator={}, evaluation={"mode": "Continuous", "metric": "accuracy", "goal": "Maximize"}
    )
    assert created(story.reconcile(directory_user=FIRST)) == []
    assert any("evaluator" in name for name in created(story.reconcile()))


def test_the_start_deadline_ends_the_wait() -> None:
    story = Lifecycle(checkpoint=CHECKPOINT, runPolicy={"startDeadlineSeconds": 60})
    story.reconcile(directory_user=FIRST)
    story.reconcile(after=61, directory_user=FIRST)
    assert story.condition_status("Failed") == ("True", "CheckpointDirectoryInUse")
    assert "by the job first" in story.message("Failed")
