"""The token of an attempt: all its launchers have the same one, launchers of other attempts have another, and the
planner does not draw it."""

import json
from typing import Any

from support.factories import Lifecycle, created, deleted, launcher_report

from tfdist.contract import JOB_ENV, ReplicaJob
from tfdist.planner import Plan

BOTH = "worker-0:R worker-1:R"
FIRST, SECOND, THIRD = "a" * 32, "b" * 32, "c" * 32


def tokens(todo: Plan) -> list[str | None]:
    """Return the token in the environment of each pod to be created."""
    found: list[str | None] = []
    for made in todo.creates:
        env: list[dict[str, Any]] = made["spec"]["containers"][0]["env"]
        settings = ReplicaJob.model_validate_json(next(v["value"] for v in env if v["name"] == JOB_ENV))
        found.append(settings.launch.token if settings.launch else None)
    return found


def test_all_pods_of_an_attempt_get_the_token_that_the_status_stores() -> None:
    job = Lifecycle()
    assert tokens(job.reconcile(token=FIRST)) == [FIRST, FIRST]
    assert job.status["gangs"]["training"]["token"] == FIRST


def test_a_replica_that_another_controller_creates_gets_the_token_of_the_others() -> None:
    """Given a gang without one of its pods, when another controller creates the pod, then it gets the same token."""
    job = Lifecycle()
    job.reconcile(token=FIRST)
    todo = job.reconcile("worker-0:P", token=SECOND, taken_over=True)
    assert (created(todo), tokens(todo)) == (["worker-1"], [FIRST])


def test_the_next_attempt_gets_a_token_of_its_own() -> None:
    job = Lifecycle(without=["training"], image="own:1", command=["tfdist-launch", "python", "train.py"])
    job.reconcile(token=FIRST)
    job.reconcile(BOTH, token=SECOND)
    job.reconcile("worker-0:R worker-1:F", token=SECOND)
    todo = job.reconcile("", after=60, token=THIRD)
    assert job.status["gangs"]["training"]["attempt"] == 1
    (token,) = set(tokens(todo)) or {job.status["gangs"]["training"]["token"]}
    assert token in {SECOND, THIRD}
    assert token == job.status["gangs"]["training"]["token"]


def test_an_attempt_that_was_started_without_a_token_continues_without_one() -> None:
    """Given pods without a token, when one is created again, then it has none: its launcher can join the others."""
    job = Lifecycle()
    job.reconcile(token="")
    assert "token" not in job.status["gangs"]["training"]
    todo = job.reconcile("worker-0:P", token=FIRST, taken_over=True)
    assert (created(todo), tokens(todo)) == (["worker-1"], [None])


def test_a_program_without_a_launcher_gets_no_token() -> None:
    job = Lifecycle(without=["training"], image="own:1", command=["python", "train.py"])
    (first, _) = job.reconcile(token=FIRST).creates
    assert FIRST not in json.dumps(first)


LAUNCHED: dict[str, Any] = {
    "without": ["training"],
    "image": "own:1",
    "command": ["tfdist-launch", "python", "train.py"],
}


def overwritten(pods: str = BOTH) -> Lifecycle:
    """Return a job whose pods have a token, and whose status was replaced by an empty one."""
    job = Lifecycle(**LAUNCHED)
    job.reconcile(token=FIRST)
    job.reconcile(pods, token=SECOND)
    job.status = {}
    return job


def test_an_overwritten_status_does_not_restart_a_running_gang() -> None:
    todo = (job := overwritten()).reconcile(BOTH, token=SECOND)
    assert (created(todo), deleted(todo)) == ([], [])
    assert job.status["phase"] == "Running"
    assert job.status["gangs"]["training"]["attempt"] == 0


def test_an_overwritten_status_does_not_restart_a_starting_gang() -> None:
    todo = overwritten("worker-0:P worker-1:P").reconcile("worker-0:P worker-1:P", token=SECOND)
    assert (created(todo), deleted(todo)) == ([], [])


def test_after_an_overwritten_status_no_pod_is_created_that_the_others_reject() -> None:
    """Given pods with a token that the status has lost, when one fails, then all restart, with a token of their own."""
    job = overwritten()
    job.reconcile(BOTH, report=launcher_report(), token=SECOND)
    todo = job.reconcile("worker-0:R worker-1:F", report=launcher_report(), after=1, token=THIRD)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert set(tokens(todo)) == {THIRD}
    assert deleted(todo) == ["worker-0"]


def test_a_pod_that_was_not_created_before_the_status_was_overwritten_begins_the_next_attempt() -> None:
    job = overwritten("worker-0:P")
    todo = job.reconcile("worker-0:P", token=SECOND)
    assert (created(todo), deleted(todo)) == ([], ["worker-0"])
    todo = job.reconcile("", after=60, token=THIRD)
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
    assert set(tokens(todo)) == {SECOND}


def test_attempts_go_on_counting_after_an_overwritten_status() -> None:
    job = overwritten()
    job.reconcile("worker-0-r3:R worker-1-r3:R", token=SECOND)
    assert job.status["gangs"]["training"]["attempt"] == 3
    assert created(job.reconcile("worker-0-r3:R worker-1-r3:F", after=1, token=THIRD)) == [
        "worker-0-r4",
        "worker-1-r4",
    ]
