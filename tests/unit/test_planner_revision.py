"""One attempt has one specification: the effect of a change on a running job."""

from typing import Any

from support.edited import BOTH, NEW, OLD, Edited, images
from support.factories import (
    EVALUATED,
    created,
    deleted,
    event_reasons,
    launcher_report,
    pod,
)

RESTART = {"runPolicy": {"updateStrategy": "Restart"}}
PS = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "command": ["run"]}
PS_RUNS = "chief-0:R worker-0:R worker-1:R ps-0:R"


# A changed specification


def launched(**spec: Any) -> Edited:
    """Return two workers that train under launchers, of which worker-1 alone is replaced when its pod is lost."""
    job = Edited(BOTH, **(OLD | spec))
    job.reconcile(BOTH, report=launcher_report())
    return job


def test_the_replacement_of_one_pod_is_made_of_the_specification_of_its_attempt() -> None:
    job = launched()
    job.edit(**NEW)
    job.reconcile(BOTH)
    todo = job.reconcile("worker-0:R")
    assert (created(todo), images(todo)) == (["worker-1-r1"], {"team/train:1"})


def test_the_status_keeps_the_specification_for_a_controller_that_is_started_later() -> None:
    job = launched()
    job.edit(**NEW)
    job.reconcile(BOTH)
    assert list(job.status["specifications"]) == ["1"]
    job.restart_controller()
    assert images(job.reconcile("worker-0:R")) == {"team/train:1"}


def test_a_gang_whose_specification_is_not_known_restarts_as_a_whole() -> None:
    job = launched()
    job.restart_controller()  # and is away while the job is changed
    job.edit(**NEW)
    todo = job.reconcile("worker-0:R")
    assert deleted(todo) == ["worker-0"]
    todo = job.reconcile("")
    assert (created(todo), images(todo)) == (["worker-0-r1", "worker-1-r1"], {"team/train:2"})


def test_the_missing_pod_of_a_gang_that_starts_is_made_of_the_same_specification() -> None:
    job = Edited(**OLD)
    job.reconcile()
    job.edit(**NEW)
    todo = job.reconcile("worker-0:R")
    assert (created(todo), images(todo)) == (["worker-1"], {"team/train:1"})


def test_a_gang_that_starts_restarts_where_its_specification_is_not_known() -> None:
    job = Edited(**OLD)
    job.reconcile()
    job.restart_controller()
    job.edit(**NEW)
    todo = job.reconcile("worker-0:R")
    assert (created(todo), deleted(todo)) == ([], ["worker-0"])
    assert job.condition_status("Restarting") == ("True", "SpecChanged")
    assert job.status["restarts"] == {"counted": 0, "uncounted": 0, "sinceCheckpoint": 0}
    assert images(job.reconcile("")) == {"team/train:2"}


def test_a_worker_of_parameter_servers_is_replaced_by_one_of_the_same_specification() -> None:
    job = Edited(PS_RUNS, **PS, **OLD)
    job.edit(**PS, **NEW)
    todo = job.reconcile("chief-0:R worker-0:R ps-0:R")
    assert (created(todo), images(todo)) == (["worker-1-r1"], {"team/train:1"})


def test_a_gang_that_fails_starts_its_next_attempt_with_the_newest_specification() -> None:
    job = Edited(BOTH, **OLD)
    job.edit(**NEW)
    job.reconcile("worker-0:R worker-1:F")
    todo = job.reconcile("worker-1:F", after=60)
    assert images(todo) == {"team/train:2"}
    assert "specifications" not in job.status, "nothing runs of it any more"


def test_the_evaluator_and_training_each_keep_their_own() -> None:
    evaluated = {"evaluation": {"mode": "Continuous"}, "checkpoint": EVALUATED["checkpoint"]}
    job = Edited(f"{BOTH} evaluator-0:R", **OLD, **evaluated)
    job.edit(**NEW, **evaluated)
    todo = job.reconcile(f"{BOTH} evaluator-0:F")
    assert (created(todo), images(todo)) == (["evaluator-0-r1"], {"team/train:2"})
    assert {name: gang["generation"] for name, gang in job.status["gangs"].items()} == {"training": 1, "evaluator": 2}
    assert list(job.status["specifications"]) == ["1"]


def test_limits_take_effect_at_once_and_belong_to_no_attempt() -> None:
    job = launched()
    job.edit(**NEW, runPolicy={"activeDeadlineSeconds": 60})
    job.reconcile(BOTH, after=61)
    assert job.condition_status("Failed") == ("True", "ActiveDeadlineExceeded")


def test_a_specification_that_is_too_long_to_be_kept_costs_a_restart_of_the_gang_later() -> None:
    config = {"program": "image_classification", "config": {"text": "x" * 140000}}
    job = launched(training=config)
    job.edit(**NEW)
    job.reconcile(BOTH)
    assert "specifications" not in job.status
    job.restart_controller()
    job.reconcile("worker-0:R")
    assert images(job.reconcile("")) == {"team/train:2"}


def test_a_new_version_with_other_fingerprints_sees_no_change_in_the_same_generation() -> None:
    job = launched()
    todo = job.reconcile(BOTH, template="made-otherwise")
    assert (created(todo), deleted(todo)) == ([], [])
    assert "running pods use" not in job.message("Running")


def test_a_replica_that_a_smaller_job_no_longer_has_is_of_the_attempt_too() -> None:
    job = Edited(**OLD)
    job.reconcile()
    job.edit(**NEW, worker={"replicas": 1})
    todo = job.reconcile("worker-1:P")
    assert (created(todo), deleted(todo)) == (["worker-0-r1"], ["worker-1"])


# When it takes effect


def test_the_strategy_restart_applies_a_change_at_once_after_the_pods_have_saved() -> None:
    job = Edited(BOTH, **OLD, **RESTART)
    job.edit(**NEW, **RESTART)
    todo = job.reconcile(BOTH)
    assert (created(todo), deleted(todo), event_reasons(todo)) == ([], ["worker-0", "worker-1"], ["Restarting"])
    assert job.condition_status("Restarting") == ("True", "SpecChanged")
    leaving = [pod("worker-0", deleting=True), pod("worker-1", deleting=True)]
    assert created(job.reconcile(leaving, after=5)) == []
    todo = job.reconcile([pod("worker-1", "F", deleting=True)], after=1)
    assert (created(todo), images(todo)) == (["worker-0-r1", "worker-1-r1"], {"team/train:2"})
    assert job.status["restarts"] == {"counted": 0, "uncounted": 0, "sinceCheckpoint": 0}


def test_a_pod_that_does_not_end_holds_the_next_attempt_up_for_its_grace_period() -> None:
    job = Edited(BOTH, **OLD, **RESTART)
    job.edit(**NEW, **RESTART)
    assert job.reconcile(BOTH).requeue_after_seconds == 35
    assert created(job.reconcile(BOTH, after=36)) == ["worker-0-r1", "worker-1-r1"]


def test_limits_are_no_change_that_the_strategy_restart_acts_on() -> None:
    job = Edited(BOTH, **RESTART)
    job.edit(runPolicy={"updateStrategy": "Restart", "backoffLimit": 9})
    todo = job.reconcile(BOTH)
    assert (created(todo), deleted(todo)) == ([], [])


def test_a_gang_of_which_no_pod_has_started_takes_a_correction_at_once() -> None:
    job = Edited(**OLD)
    job.reconcile()
    job.reconcile("worker-0:P worker-1:P")
    job.edit(**NEW)
    assert deleted(job.reconcile("worker-0:P worker-1:P")) == ["worker-0", "worker-1"]
    assert images(job.reconcile("")) == {"team/train:2"}


def test_the_annotation_restarts_the_job_once_with_the_newest_specification() -> None:
    job = Edited(BOTH, **OLD)
    job.edit(**NEW)
    job.annotations = {"tfdist.dev/restartedAt": "2030-01-02T03:04:05Z"}
    assert deleted(job.reconcile(BOTH)) == ["worker-0", "worker-1"]
    assert job.condition_status("Restarting") == ("True", "RestartRequested")
    assert images(job.reconcile("")) == {"team/train:2"}
    job.restart_controller()
    todo = job.reconcile("worker-0-r1:R worker-1-r1:R")
    assert (created(todo), deleted(todo), job.status["phase"]) == ([], [], "Running")
    job.annotations = {"tfdist.dev/restartedAt": "again"}
    assert deleted(job.reconcile("worker-0-r1:R worker-1-r1:R")) == ["worker-0-r1", "worker-1-r1"]


def test_the_annotation_of_a_new_job_restarts_nothing() -> None:
    job = Edited()
    job.annotations = {"tfdist.dev/restartedAt": "x" * 5000}
    assert created(job.reconcile()) == ["worker-0", "worker-1"]
    todo = job.reconcile(BOTH)
    assert (created(todo), deleted(todo), len(job.status["restartedAt"])) == ([], [], 64)


def test_a_request_for_a_restart_of_a_suspended_job_is_met_by_its_resumption() -> None:
    job = Edited(BOTH)
    job.edit(runPolicy={"suspend": True})
    job.annotations = {"tfdist.dev/restartedAt": "now"}
    job.reconcile(BOTH)
    job.reconcile("")
    job.edit()
    assert created(job.reconcile("")) == ["worker-0-r1", "worker-1-r1"]
    todo = job.reconcile("worker-0-r1:R worker-1-r1:R")
    assert (created(todo), deleted(todo)) == ([], [])
