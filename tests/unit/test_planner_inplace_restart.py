"""Gangs with in-place restart: the actions of the controller, and its records."""

import json
from typing import Any

import pytest
from support.factories import NOW, TRAINING, Lifecycle, created, deleted, event_reasons, launcher_report, pod, report
from support.factories import failure_in_place as failure

from tfdist.api.gang_status import GangStatus
from tfdist.contract import Restarts
from tfdist.observed.job_view import StepCadence
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.timestamps import rfc3339
from tfdist.validation import parse

BOTH = "worker-0:R worker-1:R"


def gave_up(name: str, reason: str, restarts: Restarts, code: int = 137) -> Any:
    """Return a pod whose launcher gave up because of worker 1."""
    end = {"role": "worker", "index": 1, "round": 3, "reason": reason, "restarts": restarts.model_dump(by_alias=True)}
    message = json.dumps({"reason": reason, "message": "worker-1: out of luck", "gangEnd": end})
    return pod(name, "F", exit_code=code, message=message)


def launched() -> Lifecycle:
    """Return a gang whose launchers have reported."""
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=launcher_report())
    return story


def test_an_in_place_restart_is_recorded_and_published_once_and_changes_no_pod() -> None:
    story = launched()
    todo = story.reconcile(BOTH, report=launcher_report(failure(1)))
    assert (created(todo), deleted(todo), event_reasons(todo)) == ([], [], ["Restarting"])
    (record,) = story.status["failures"]
    known = {"reason": "Crash", "round": 0, "pod": "fashion-worker-1", "node": "node-a", "exitCode": 137}
    assert known.items() <= record.items()
    assert story.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
    again = story.reconcile(BOTH, report=launcher_report(failure(1)))
    assert (again.status, event_reasons(again)) == (None, [])
    assert event_reasons(story.reconcile(BOTH, report=launcher_report(failure(1), failure(2)))) == ["Restarting"]
    assert [f["round"] for f in story.status["failures"]] == [0, 1]


def test_each_of_more_failures_than_a_report_contains_is_recorded_once() -> None:
    story = launched()
    story.reconcile(BOTH, report=launcher_report(failure(1), failure(2)))
    story.reconcile(BOTH, report=launcher_report(failure(4), failure(5)))
    assert [f["round"] for f in story.status["failures"]] == [0, 1, 3, 4]


def test_the_condition_restarting_names_the_missing_replica_until_the_processes_run_again() -> None:
    story = launched()
    story.reconcile(BOTH, report=launcher_report(failure(1), waiting_for="worker-1 has not joined"))
    assert story.condition_status("Restarting") == ("True", "InPlaceRestart")
    assert "wait: worker-1 has not joined" in story.message("Restarting")
    story.reconcile(BOTH, report=launcher_report(failure(1)))
    assert (story.condition_status("Restarting")[0], story.status["phase"]) == ("False", "Running")


def test_launchers_in_their_first_rendezvous_restart_nothing() -> None:
    story = Lifecycle(BOTH)
    todo = story.reconcile(
        BOTH, report=launcher_report(number=-1, waiting_for="worker-1: its launcher is not connected")
    )
    assert (story.status["phase"], "Restarting" in event_reasons(todo)) == ("Running", False)
    assert "their launchers wait: worker-1: its launcher is not connected" in story.message("Running")
    story.reconcile(BOTH, report=launcher_report())
    assert (story.status["phase"], "wait" in story.message("Running")) == ("Running", False)


def test_a_new_leader_that_waits_for_the_others_restarts_them() -> None:
    story = launched()
    story.reconcile([pod("worker-1")])
    both = [pod("worker-0", attempt=1), pod("worker-1")]
    story.reconcile(
        both, report=launcher_report(number=-1, attempt=1, waiting_for="worker-1: its launcher is not connected")
    )
    assert (story.status["phase"], story.condition_status("Restarting")) == ("Restarting", ("True", "InPlaceRestart"))


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ([pod("worker-0"), pod("worker-1", "F", exit_code=137)], "Crash"),
        ([pod("worker-0", disrupted=True, letter="F", exit_code=None), pod("worker-1")], "Disruption"),
        ([pod("worker-0")], "Disruption"),
    ],
    ids=["its launcher is killed", "the leader's node is lost", "its pod is deleted"],
)
def test_a_failed_or_terminating_pod_is_replaced_alone_while_the_others_wait_for_it(
    lost: list[Any], reason: str
) -> None:
    story = launched()
    todo = story.reconcile(lost)
    (name,) = created(todo)
    assert name in {"worker-0-r1", "worker-1-r1"}
    assert (story.status["failures"][-1]["reason"], story.status["phase"]) == (reason, "Restarting")


def test_a_gang_without_launchers_restarts_as_a_whole() -> None:
    story = Lifecycle(BOTH)
    story.reconcile(BOTH, report=report(5))
    assert created(story.reconcile("worker-0:R worker-1:F")) == ["worker-0-r1", "worker-1-r1"]


def test_without_a_running_launcher_the_whole_gang_restarts() -> None:
    story = launched()
    assert created(story.reconcile("worker-0:F worker-1:F")) == ["worker-0-r1", "worker-1-r1"]


def test_a_terminating_pod_saves_before_its_replacement_joins() -> None:
    story = launched()
    leaving = [pod("worker-0"), pod("worker-1", deleting=True, deleted_at=rfc3339(NOW))]
    todo = story.reconcile(leaving)
    assert created(todo) == []
    assert todo.requeue_after_seconds == pytest.approx(30)
    saved = [pod("worker-0"), pod("worker-1", "F", exit_code=42, deleting=True, deleted_at=rfc3339(NOW))]
    assert created(story.reconcile(saved, after=2)) == ["worker-1-r1"]
    assert story.status["restarts"]["counted"] == 0


def test_a_pod_that_never_stops_is_not_waited_for_longer() -> None:
    story = launched()
    leaving = [pod("worker-0"), pod("worker-1", deleting=True, deleted_at=rfc3339(NOW))]
    story.reconcile(leaving)
    assert created(story.reconcile(leaving, after=30)) == ["worker-1-r1"]


def test_a_limit_that_the_launchers_have_reached_fails_the_job() -> None:
    story = Lifecycle(BOTH, runPolicy={"backoffLimit": 3})
    story.reconcile(BOTH, report=launcher_report())
    spent = Restarts(counted=3, since_checkpoint=3)
    todo = story.reconcile([gave_up("worker-0", "BackoffLimitExceeded", spent), pod("worker-1")])
    assert (created(todo), story.condition_status("Failed")) == ([], ("True", "BackoffLimitExceeded"))
    record = story.status["failures"][-1]
    assert (record["index"], record["round"], story.status["restarts"]["counted"]) == (1, 3, 3)


def test_a_job_whose_limit_was_raised_continues_with_new_pods() -> None:
    story = Lifecycle(BOTH, runPolicy={"backoffLimit": 9})
    story.reconcile(BOTH, report=launcher_report())
    spent = Restarts(counted=3, since_checkpoint=3)
    story.reconcile([gave_up("worker-0", "BackoffLimitExceeded", spent), pod("worker-1")])
    assert (story.status["attempt"], story.status["restarts"]["counted"]) == (1, 4)


def test_a_failure_that_a_restart_would_repeat_fails_the_job_with_the_reason_of_the_launcher() -> None:
    story = launched()
    ended = [gave_up(name, "RepeatedError", Restarts(), 1) for name in ("worker-0", "worker-1")]
    story.reconcile(ended)
    assert story.condition_status("Failed") == ("True", "RepeatedError")
    assert "out of luck" in story.message("Failed")


def test_the_last_failure_is_not_recorded_twice() -> None:
    story = launched()
    story.reconcile(BOTH, report=launcher_report(failure(4)))
    story.reconcile(
        [gave_up("worker-0", "BackoffLimitExceeded", Restarts(counted=3, since_checkpoint=3)), pod("worker-1")]
    )
    assert [f["round"] for f in story.status["failures"]] == [3]


def test_restarts_by_the_controller_and_by_the_launchers_add_up() -> None:
    story = launched()
    story.reconcile(BOTH, report=launcher_report(failure(1)))
    story.reconcile(
        [pod("worker-0"), pod("worker-1", "F", disrupted=True, exit_code=None)], report=launcher_report(failure(1))
    )
    now_both = "worker-0:R worker-1-r1:R"
    story.reconcile(now_both, report=launcher_report(failure(1), failure(2)))
    assert story.status["restarts"] == {"counted": 2, "uncounted": 1, "sinceCheckpoint": 2}


def test_a_new_leader_pod_gets_the_restarts_so_far_and_they_are_not_counted_again() -> None:
    story = Lifecycle(BOTH, command=["tfdist-launch", "train"])
    story.reconcile(BOTH, report=launcher_report(failure(1)))
    todo = story.reconcile(
        [pod("worker-0", "F", disrupted=True, exit_code=None), pod("worker-1")], report=launcher_report(failure(1))
    )
    (made,) = todo.creates
    variables = {v["name"]: v.get("value") for v in made["spec"]["containers"][0]["env"]}
    launch = json.loads(variables["TFDIST_JOB"])["launch"]
    assert (launch["gang"]["priorRestarts"]["counted"], launch["gang"]["priorRestarts"]["uncounted"]) == (1, 1)
    assert [m["attempt"] for m in launch["gang"]["memberRanges"]] == [1, 0]
    rebased = Restarts(counted=1, uncounted=1, since_checkpoint=1, uncounted_since_checkpoint=1)
    story.reconcile("worker-0-r1:R worker-1:R", report=launcher_report(attempt=1, restarts=rebased))
    assert story.status["restarts"] == {"counted": 1, "uncounted": 1, "sinceCheckpoint": 1}


@pytest.mark.parametrize("claimed", [0, 2**31 - 1])
def test_a_report_neither_ends_nor_extends_the_back_off_of_pods_and_a_new_leader_continues_it(claimed: int) -> None:
    story = Lifecycle(BOTH, command=["tfdist-launch", "train"])
    record = story.status["gangs"]["training"]
    story.status = story.status | {"gangs": {"training": record | {"shortAttempts": 7}}}
    saved = Restarts(short_attempts=claimed, checkpoint_step=10**12)
    story.reconcile(BOTH, report=launcher_report(restarts=saved))
    lost = pod("worker-0", "F", disrupted=True, exit_code=None, scheduled_at=rfc3339(story.now))
    (made,) = story.reconcile([lost, pod("worker-1")], report=launcher_report(restarts=saved)).creates
    assert story.status["gangs"]["training"]["shortAttempts"] == 8
    variables = {v["name"]: v.get("value") for v in made["spec"]["containers"][0]["env"]}
    assert json.loads(variables["TFDIST_JOB"])["launch"]["gang"]["priorRestarts"]["shortAttempts"] == 8


def test_the_launchers_act_before_the_controller_on_a_stalled_gang() -> None:
    story = Lifecycle(BOTH, runPolicy={"progressDeadlineSeconds": 60})
    moved = StepCadence(attempt=0, last_progress_at=rfc3339(NOW), progress_count=1)
    assert story.reconcile(BOTH, after=61, cadence=moved, report=launcher_report()).probes == ()
    assert story.reconcile(BOTH, after=120, cadence=moved, report=launcher_report()).probes != ()


def variables(index: int = 1, **spec: Any) -> dict[str, Any]:
    """Return the launcher settings of a worker."""
    job = parse(
        {
            "apiVersion": "tfdist.dev/v1",
            "kind": "TFDistJob",
            "metadata": {"name": "fashion", "namespace": "team", "uid": "1"},
            "spec": {"worker": {"replicas": 2}, **spec},
        }
    )
    gang = training_gang(job)
    made = PodRenderer(job, gang, Installation("trainer:1"), GangStatus(last_full_restart=2)).pod(
        gang.members[index], Attempt(2, 2)
    )
    found = {v["name"]: v.get("value") for v in made["spec"]["containers"][0]["env"]}
    event_reasons: dict[str, Any] = json.loads(found["TFDIST_JOB"])
    return event_reasons


def test_launchers_get_the_address_of_the_rendezvous_and_the_limits() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    spec = {
        "training": TRAINING,
        "runPolicy": {"backoffLimit": 5, "progressDeadlineSeconds": "Auto"},
        "failurePolicy": {"rules": [rule]},
    }
    leads, follows = (variables(index, **spec)["launch"] for index in (0, 1))
    gang = leads.pop("gang")
    leader = {"leader": "worker-0.fashion.team.svc:8791", "gangAttempt": 2}
    assert [leads, follows] == [leader | {"rank": rank} for rank in (0, 1)]
    assert (gang["backoffLimit"], gang["progressDeadlineSeconds"]) == (5, "Auto")
    assert gang["rules"] == [rule]
    assert [(m["role"], m["index"], m["count"], m["attempt"]) for m in gang["memberRanges"]] == [("worker", 0, 2, 2)]


@pytest.mark.parametrize(
    ("spec", "has_settings"),
    [
        ({"image": "team/train:1", "command": ["python", "train.py"]}, False),
        ({"image": "team/train:1", "command": ["tfdist-launch", "python", "train.py"]}, True),
        ({"image": "team/train:1"}, True),
        ({"training": TRAINING}, True),
        ({"training": TRAINING, "command": ["python", "-m", "tfdist_trainer"]}, False),
    ],
    ids=[
        "its own command",
        "the launcher",
        "an image that may begin with it",
        "the bundled trainer",
        "the bundled trainer without it",
    ],
)
def test_a_program_without_a_launcher_gets_no_launcher_settings(spec: dict[str, Any], has_settings: bool) -> None:
    assert ("launch" in variables(**spec)) is has_settings


def test_addresses_in_tf_config_are_not_repeated() -> None:
    assert variables(image="team/train:1", command=["run"])["addresses"] == {}
