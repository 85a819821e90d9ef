"""How a job ends whose evaluator is late, cannot start, fails, or is interrupted: training is never touched.

Training ends at once in all of them, so nothing of TensorFlow is needed.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing_jobs import ENDS, WAITS, JobNamespace, own_namespace, small_job
from support.polling import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(300)]

NOWHERE = {"template": {"spec": {"nodeSelector": {"no-node": "has-this"}}}}
NO_DATA = {"data": {"train": "/nowhere/train-*.tfrecord", "eval": "/nowhere/test-*.tfrecord"}}


def with_evaluator(name: str, evaluator: Json, *, program: Json | None = None, **evaluation: Any) -> Json:
    """Return a job whose evaluator runs for ever in its first attempt, unless `evaluator` replaces its command.

    `program` is its `training`, without which the evaluator is one of the user's own. With it, an argument of the
    command has the name of the trainer, which has to give a result.
    """
    names = [] if program is None else ["tfdist_trainer"]
    job = small_job(name, WAITS, *names, checkpoint={"directory": "gs://bucket/{name}"}, evaluator=evaluator)
    job["spec"] |= {"evaluation": {"mode": "Continuous"} | evaluation}
    job["spec"]["worker"]["command"] = ["python", "-c", ENDS, "0"]
    if program is not None:
        job["spec"]["training"] = program
    return job


def without_data() -> Json:
    """Return a job whose evaluator is the trainer's, with files to evaluate that are not there."""
    program = {"program": "image_classification", "config": NO_DATA}
    job = with_evaluator("no-data", {"resources": {"limits": {"memory": "512Mi"}}}, program=program)
    del job["spec"]["command"]
    return job


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    """All of them started together."""
    bundled = {"program": "image_classification", "config": NO_DATA}  # what it waits for does not read them
    with own_namespace(cluster, "evaluation") as jobs:
        jobs.start(
            with_evaluator("late", {}, program=bundled, deadlineSeconds=5),
            with_evaluator("late-fails", {}, program=bundled, deadlineSeconds=5, onFailure="FailJob"),
            with_evaluator("own-script", {}, deadlineSeconds=5),
            with_evaluator("no-place", NOWHERE, program=bundled, deadlineSeconds=5),
            without_data(),
            with_evaluator("interrupted", {}),
            with_evaluator("deleted", {}),
        )
        yield jobs


def conditions(status: Json) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


@pytest.mark.parametrize(
    ("name", "phase", "evaluated", "message"),
    [
        ("late", "Succeeded", ("False", "EvaluationDeadlineExceeded"), "not finished 5 s after training"),
        ("late-fails", "Failed", ("False", "EvaluationDeadlineExceeded"), "not finished 5 s after training"),
        ("own-script", "Succeeded", ("True", "NoResult"), "was stopped at evaluation.deadlineSeconds"),
        ("no-place", "Succeeded", ("False", "EvaluationDeadlineExceeded"), "not finished 5 s after training"),
        ("no-data", "Succeeded", ("False", "UserError"), "training.config.data.eval: "),
    ],
)
def test_training_succeeds_whatever_the_result_of_the_evaluation(
    jobs: JobNamespace, name: str, phase: str, evaluated: tuple[str, str], message: str
) -> None:
    status = jobs.ended(name)
    status_of = conditions(status)
    assert status["phase"] == phase, jobs.described(name)
    assert status_of["Running"] == ("False", "TrainingSucceeded")
    assert status_of["Evaluated"] == evaluated
    assert message in jobs.printed(name)["MESSAGE"]
    assert status["replicas"]["worker"]["succeeded"] == 1
    assert (status["attempt"], status["restarts"]["counted"]) == (0, 0)


def test_a_job_that_is_suspended_while_it_evaluates_goes_on_with_the_evaluator_alone(jobs: JobNamespace) -> None:
    _await_evaluation(jobs, "interrupted")
    jobs.change("interrupted", {"runPolicy": {"suspend": True}})
    cluster = jobs.cluster
    wait_for("it to stand still", lambda: cluster.job("interrupted")["status"]["phase"] == "Suspended", 60)
    jobs.change("interrupted", {"runPolicy": {"suspend": False}})
    status = jobs.ended("interrupted")
    assert conditions(status)["Succeeded"] == ("True", "Succeeded")
    names = {p["metadata"]["name"] for p in cluster.pods("interrupted")}
    assert "interrupted-evaluator-0-r1" in names
    assert "interrupted-worker-0-r1" not in names, "training was repeated"


def test_a_job_that_is_deleted_while_it_evaluates_leaves_nothing(jobs: JobNamespace) -> None:
    _await_evaluation(jobs, "deleted")
    jobs.cluster.delete_job("deleted")
    wait_for("its pods to be deleted", lambda: not jobs.cluster.pods("deleted"), 60)


def _await_evaluation(jobs: JobNamespace, name: str) -> None:
    """Wait until training has ended and the evaluator runs."""

    def evaluates() -> bool:
        status = jobs.cluster.job(name).get("status", {})
        running = status.get("replicas", {}).get("evaluator", {}).get("running")
        return bool(status.get("phase") == "Evaluating" and running)

    wait_for(f"the evaluation of {name}", evaluates, 90)
