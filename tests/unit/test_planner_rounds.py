"""Gangs whose launchers restart programs in place: what is left to the controller, and what it records."""

import json
from typing import Any

import pytest
from support.factories import NOW, Story, created, deleted, pod, report, told
from support.factories import failure_in_place as failure
from support.factories import launchers_tell as tells

from tfdist.contract import Restarts
from tfdist.render.gang import training_gang
from tfdist.render.installation import Installation
from tfdist.render.launch import Past
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.validation import parse
from tfdist_operator.observed.view import Pace
from tfdist_operator.status.clock import rfc3339

BOTH = "worker-0:R worker-1:R"


def gave_up(name: str, reason: str, restarts: Restarts, code: int = 137) -> Any:
    """Return a pod whose launcher gave up because of worker 1."""
    end = {"role": "worker", "index": 1, "round": 3, "reason": reason, "restarts": restarts.model_dump(by_alias=True)}
    message = json.dumps({"reason": reason, "message": "worker-1: out of luck", "gangEnd": end})
    return pod(name, "F", exit_code=code, message=message)


def launched() -> Story:
    """Return the story of a gang whose launchers have told of themselves."""
    story = Story(BOTH)
    story.look(BOTH, report=tells())
    return story


def test_a_restart_in_place_is_recorded_and_told_of_once_and_no_pod_is_touched() -> None:
    story = launched()
    todo = story.look(BOTH, report=tells(failure(1)))
    assert (created(todo), deleted(todo), told(todo)) == ([], [], ["Restarting"])
    (record,) = story.status["failures"]
    known = {"reason": "Crash", "round": 0, "pod": "fashion-worker-1", "node": "node-a", "exitCode": 137}
    assert known.items() <= record.items()
    assert story.status["restarts"] == {"counted": 1, "uncounted": 0, "sinceCheckpoint": 1}
    again = story.look(BOTH, report=tells(failure(1)))
    assert (again.status, told(again)) == (None, [])
    assert told(story.look(BOTH, report=tells(failure(1), failure(2)))) == ["Restarting"]
    assert [f["round"] for f in story.status["failures"]] == [0, 1]


def test_of_more_failures_than_a_report_holds_each_is_still_recorded_once() -> None:
    story = launched()
    story.look(BOTH, report=tells(failure(1), failure(2)))
    story.look(BOTH, report=tells(failure(4), failure(5)))
    assert [f["round"] for f in story.status["failures"]] == [0, 1, 3, 4]


def test_what_the_next_round_waits_for_is_said_and_over_when_it_begins() -> None:
    story = launched()
    story.look(BOTH, report=tells(failure(1), waiting_for="worker-1 has not joined"))
    assert story.says("Restarting") == ("True", "InPlace")
    assert "wait: worker-1 has not joined" in story.message("Restarting")
    story.look(BOTH, report=tells(failure(1)))
    assert (story.says("Restarting")[0], story.status["phase"]) == ("False", "Running")


def test_launchers_that_still_meet_for_the_first_time_restart_nothing() -> None:
    story = Story(BOTH)
    todo = story.look(BOTH, report=tells(number=-1, waiting_for="worker-1: its launcher has not called"))
    assert (story.status["phase"], "Restarting" in told(todo)) == ("Running", False)
    assert "their launchers wait: worker-1: its launcher has not called" in story.message("Running")
    story.look(BOTH, report=tells())
    assert (story.status["phase"], "wait" in story.message("Running")) == ("Running", False)


def test_a_new_leader_that_waits_for_the_others_restarts_them() -> None:
    story = launched()
    story.look([pod("worker-1")])
    both = [pod("worker-0", attempt=1), pod("worker-1")]
    story.look(both, report=tells(number=-1, attempt=1, waiting_for="worker-1: its launcher has not called"))
    assert (story.status["phase"], story.says("Restarting")) == ("Restarting", ("True", "InPlace"))


@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ([pod("worker-0"), pod("worker-1", "F", exit_code=137)], "Crash"),
        ([pod("worker-0", disrupted=True, letter="F", exit_code=None), pod("worker-1")], "Disruption"),
        ([pod("worker-0")], "Disruption"),
    ],
    ids=["its launcher is killed", "the leader's node is lost", "its pod is deleted"],
)
def test_a_pod_that_is_lost_is_replaced_alone_while_the_others_wait_for_it(lost: list[Any], reason: str) -> None:
    story = launched()
    todo = story.look(lost)
    (name,) = created(todo)
    assert name in {"worker-0-r1", "worker-1-r1"}
    assert (story.status["failures"][-1]["reason"], story.status["phase"]) == (reason, "Running")


def test_a_gang_without_launchers_restarts_as_a_whole() -> None:
    story = Story(BOTH)
    story.look(BOTH, report=report(5))
    assert created(story.look("worker-0:R worker-1:F")) == ["worker-0-r1", "worker-1-r1"]


def test_when_nobody_is_left_to_wait_the_whole_gang_restarts() -> None:
    story = launched()
    assert created(story.look("worker-0:F worker-1:F")) == ["worker-0-r1", "worker-1-r1"]


def test_a_pod_that_is_told_to_stop_saves_before_its_replacement_joins() -> None:
    story = launched()
    leaving = [pod("worker-0"), pod("worker-1", deleting=True, deleted_at=rfc3339(NOW))]
    todo = story.look(leaving)
    assert created(todo) == []
    assert todo.requeue_after_seconds == pytest.approx(30)
    saved = [pod("worker-0"), pod("worker-1", "F", exit_code=42, deleting=True, deleted_at=rfc3339(NOW))]
    assert created(story.look(saved, after=2)) == ["worker-1-r1"]
    assert story.status["restarts"]["counted"] == 0


def test_a_pod_that_never_stops_is_not_waited_for_longer() -> None:
    story = launched()
    leaving = [pod("worker-0"), pod("worker-1", deleting=True, deleted_at=rfc3339(NOW))]
    story.look(leaving)
    assert created(story.look(leaving, after=30)) == ["worker-1-r1"]


def test_a_limit_that_the_launchers_have_reached_fails_the_job() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 3})
    story.look(BOTH, report=tells())
    spent = Restarts(counted=3, since_checkpoint=3)
    todo = story.look([gave_up("worker-0", "BackoffLimitExceeded", spent), pod("worker-1")])
    assert (created(todo), story.says("Failed")) == ([], ("True", "BackoffLimitExceeded"))
    record = story.status["failures"][-1]
    assert (record["index"], record["round"], story.status["restarts"]["counted"]) == (1, 3, 3)


def test_a_limit_that_was_raised_since_goes_on_with_new_pods() -> None:
    story = Story(BOTH, runPolicy={"backoffLimit": 9})
    story.look(BOTH, report=tells())
    spent = Restarts(counted=3, since_checkpoint=3)
    story.look([gave_up("worker-0", "BackoffLimitExceeded", spent), pod("worker-1")])
    assert (story.status["attempt"], story.status["restarts"]["counted"]) == (1, 4)


def test_an_end_that_a_restart_would_repeat_fails_the_job_with_the_launchers_reason() -> None:
    story = launched()
    ended = [gave_up(name, "RepeatedError", Restarts(), 1) for name in ("worker-0", "worker-1")]
    story.look(ended)
    assert story.says("Failed") == ("True", "RepeatedError")
    assert "out of luck" in story.message("Failed")


def test_the_last_failure_is_not_recorded_twice() -> None:
    story = launched()
    story.look(BOTH, report=tells(failure(4)))
    story.look([gave_up("worker-0", "BackoffLimitExceeded", Restarts(counted=3, since_checkpoint=3)), pod("worker-1")])
    assert [f["round"] for f in story.status["failures"]] == [3]


def test_restarts_by_the_controller_and_by_the_launchers_add_up() -> None:
    story = launched()
    story.look(BOTH, report=tells(failure(1)))
    story.look([pod("worker-0"), pod("worker-1", "F", disrupted=True, exit_code=None)], report=tells(failure(1)))
    now_both = "worker-0:R worker-1-r1:R"
    story.look(now_both, report=tells(failure(1), failure(2)))
    assert story.status["restarts"] == {"counted": 2, "uncounted": 1, "sinceCheckpoint": 2}


def test_a_new_leader_is_told_of_the_restarts_so_far_and_they_are_not_counted_again() -> None:
    story = Story(BOTH, command=["tfdist-launch", "train"])
    story.look(BOTH, report=tells(failure(1)))
    todo = story.look([pod("worker-0", "F", disrupted=True, exit_code=None), pod("worker-1")], report=tells(failure(1)))
    (made,) = todo.creates
    variables = {v["name"]: v.get("value") for v in made["spec"]["containers"][0]["env"]}
    launch = json.loads(variables["TFDIST_JOB"])["launch"]
    assert (launch["gang"]["used"]["counted"], launch["gang"]["used"]["uncounted"]) == (1, 1)
    assert [m["attempt"] for m in launch["gang"]["members"]] == [1, 0]
    told_of = Restarts(counted=1, uncounted=1, since_checkpoint=1, free_since_checkpoint=1)
    story.look("worker-0-r1:R worker-1:R", report=tells(attempt=1, restarts=told_of))
    assert story.status["restarts"] == {"counted": 1, "uncounted": 1, "sinceCheckpoint": 1}


def test_the_controller_lets_the_launchers_act_first_on_a_gang_that_stands_still() -> None:
    story = Story(BOTH, runPolicy={"progressDeadlineSeconds": 60})
    moved = Pace(attempt=0, moved_at=rfc3339(NOW), moves=1)
    assert story.look(BOTH, after=61, pace=moved, report=tells()).ask == ()
    assert story.look(BOTH, after=120, pace=moved, report=tells()).ask != ()


def variables(index: int = 1, **spec: Any) -> dict[str, Any]:
    """Return what a worker of a job is told."""
    job = parse(
        {
            "apiVersion": "tfdist.dev/v1",
            "kind": "TFDistJob",
            "metadata": {"name": "fashion", "namespace": "team", "uid": "1"},
            "spec": {"worker": {"replicas": 2}, **spec},
        }
    )
    gang = training_gang(job)
    made = PodRenderer(job, gang, Installation("trainer:1"), Past(lambda _: 2)).pod(gang.members[index], Attempt(2, 2))
    found = {v["name"]: v.get("value") for v in made["spec"]["containers"][0]["env"]}
    told: dict[str, Any] = json.loads(found["TFDIST_JOB"])
    return told


def test_launchers_are_told_where_they_meet_and_which_limits_hold() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}
    spec = {
        "training": {"program": "image_classification"},
        "runPolicy": {"backoffLimit": 5, "progressDeadlineSeconds": "Auto"},
        "failurePolicy": {"rules": [rule]},
    }
    leads, follows = (variables(index, **spec)["launch"] for index in (0, 1))
    gang = leads.pop("gang")
    assert [leads, follows] == [{"leader": "worker-0.fashion.team.svc:8791", "seat": seat} for seat in (0, 1)]
    assert (gang["backoffLimit"], gang["progressDeadlineSeconds"]) == (5, "Auto")
    assert gang["rules"] == [rule]
    assert [(m["role"], m["index"], m["attempt"]) for m in gang["members"]] == [("worker", 0, 2), ("worker", 1, 2)]


@pytest.mark.parametrize(
    ("spec", "is_told"),
    [
        ({"image": "team/train:1", "command": ["python", "train.py"]}, False),
        ({"image": "team/train:1", "command": ["tfdist-launch", "python", "train.py"]}, True),
        ({"image": "team/train:1"}, True),
        ({"training": {"program": "image_classification"}}, True),
        ({"training": {"program": "image_classification"}, "command": ["python", "-m", "tfdist_trainer"]}, False),
    ],
    ids=[
        "its own command",
        "the launcher",
        "an image that may begin with it",
        "the bundled trainer",
        "the bundled trainer without it",
    ],
)
def test_a_program_that_no_launcher_starts_is_not_told_of_them(spec: dict[str, Any], is_told: bool) -> None:
    assert ("launch" in variables(**spec)) is is_told


def test_addresses_that_tensorflow_is_told_are_not_repeated() -> None:
    assert variables(image="team/train:1", command=["run"])["addresses"] == {}
