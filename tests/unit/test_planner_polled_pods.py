"""Which pods of a job are polled: the leader of the gang that works, and the evaluator."""

from typing import Any

import pytest
from support.edited import INVALID, OLD, Edited
from support.factories import CHECKPOINT, EVALUATED, Lifecycle

BOTH = "worker-0:R worker-1:R"
DONE = "worker-0:S worker-1:S"
CONTINUOUS: dict[str, Any] = {"evaluation": {"mode": "Continuous"}, "checkpoint": CHECKPOINT}
PS: dict[str, Any] = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}}


@pytest.mark.parametrize(
    ("spec", "pods", "leader"),
    [
        ({}, BOTH, "fashion-worker-0"),
        (PS, "chief-0:R worker-0:R worker-1:R ps-0:R", "fashion-chief-0"),
        ({"task": "Evaluate", "checkpoint": CHECKPOINT}, "evaluation-0:R evaluation-1:R", "fashion-evaluation-0"),
    ],
    ids=["workers", "parameter servers", "evaluation only"],
)
def test_the_leader_of_a_running_gang_is_polled(spec: dict[str, Any], pods: str, leader: str) -> None:
    job = Lifecycle(**spec)
    assert job.reconcile().leader == ""
    assert job.reconcile(pods).leader == leader


def test_the_leader_of_a_restarted_gang_is_that_of_its_new_attempt() -> None:
    job = Lifecycle(BOTH)
    assert job.reconcile("worker-0:R worker-1:F").leader == ""
    assert job.reconcile("worker-0-r1:R worker-1-r1:R").leader == "fashion-worker-0-r1"


def test_the_evaluation_is_polled_after_training() -> None:
    job = Lifecycle(BOTH, **EVALUATED)
    assert job.reconcile(DONE).leader == ""
    assert job.reconcile(f"{DONE} evaluation-0:R evaluation-1:R").leader == "fashion-evaluation-0"


def test_an_evaluator_is_polled_during_training_and_after_it() -> None:
    job = Lifecycle(**CONTINUOUS)
    todo = job.reconcile(f"{BOTH} evaluator-0:R")
    assert (todo.leader, todo.evaluator) == ("fashion-worker-0", "fashion-evaluator-0")
    todo = job.reconcile(f"{DONE} evaluator-0:R")
    assert (todo.leader, todo.evaluator) == ("", "fashion-evaluator-0")


def test_the_leader_of_a_running_job_that_becomes_invalid_is_still_polled() -> None:
    job = Edited(BOTH, **OLD)
    job.edit(**INVALID)
    assert job.reconcile(BOTH).leader == "fashion-worker-0"


def test_no_pod_of_a_suspended_or_finished_job_is_polled() -> None:
    job = Lifecycle(BOTH, **CONTINUOUS)
    job.spec = {"runPolicy": {"suspend": True}}
    assert job.reconcile(BOTH).leader == ""
    ended = Lifecycle(f"{BOTH} evaluator-0:R", **CONTINUOUS, runPolicy={"activeDeadlineSeconds": 10})
    for _ in range(2):
        todo = ended.reconcile(f"{BOTH} evaluator-0:R", after=11)
        assert (ended.status["phase"], todo.leader, todo.evaluator) == ("Failed", "", "")
