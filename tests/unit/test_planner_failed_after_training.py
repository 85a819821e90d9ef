"""A worker that fails after the training of a job that succeeded is a condition and one event of the job."""

from typing import Any

import pytest
from support.factories import CHECKPOINT, Lifecycle, event_reasons, pod

BOTH = "worker-0:R worker-1:R"
ERROR = "ValueError: no column 'price'"


def ended(**end: Any) -> list[Any]:
    return [pod("worker-0", "S"), pod("worker-1", "F", **{"exit_code": 1, **end})]


def succeeded(pods: Any = "worker-0:S worker-1:R", **spec: Any) -> Lifecycle:
    job = Lifecycle(BOTH, **spec)
    job.reconcile(pods)
    assert job.status["phase"] == "Succeeded"
    return job


@pytest.mark.parametrize(
    "first", ["worker-0:S worker-1:R", ended(message=ERROR)], ids=["after the end of the job", "together with it"]
)
def test_an_exception_after_training_is_a_condition_and_one_event(first: Any) -> None:
    job = succeeded(first)
    todo = job.reconcile(ended(message=ERROR))
    again = job.reconcile(ended(message=ERROR), after=60)
    assert job.condition_status("Degraded") == ("True", "FailedAfterTraining")
    text = "training succeeded; after it worker-1 (pod fashion-worker-1, node node-a) ended with exit code 1: " + ERROR
    assert job.message("Degraded") == text
    assert [(e.reason, e.message, e.warning) for e in todo.events] == [("FailedAfterTraining", text, True)]
    assert (event_reasons(again), job.status["phase"]) == ([], "Succeeded")


@pytest.mark.parametrize(
    "end",
    [
        {"exit_code": 75},
        {"exit_code": 1, "message": "UnavailableError: Socket closed"},
        {"exit_code": 134},
        {"exit_code": 143},
        {"exit_code": 137, "deleting": True},
        {"exit_code": 1, "disrupted": True},
    ],
    ids=str,
)
def test_an_end_that_follows_from_that_of_the_leader_or_of_the_job_is_no_failure(end: dict[str, Any]) -> None:
    job = succeeded()
    assert event_reasons(job.reconcile(ended(**end))) == []


def test_a_failure_that_the_job_ignores_is_not_named() -> None:
    rule = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}
    job = succeeded(failurePolicy={"rules": [rule]})
    assert event_reasons(job.reconcile(ended(exit_code=3))) == []


def test_a_parameter_server_that_ends_after_training_is_not_named() -> None:
    job = Lifecycle("chief-0:R worker-0:R ps-0:R", strategy="ParameterServer", chief={}, ps={}, worker={"replicas": 1})
    job.reconcile("chief-0:S worker-0:S ps-0:R")
    assert job.status["phase"] == "Succeeded"
    assert event_reasons(job.reconcile("chief-0:S worker-0:S ps-0:F")) == []


def test_the_failure_follows_another_reason_of_the_condition() -> None:
    job = succeeded(training={"script": "/train.py"}, checkpoint=CHECKPOINT)
    job.reconcile(ended(message=ERROR))
    assert job.condition_status("Degraded") == ("True", "CheckpointUnused")
    assert job.message("Degraded").startswith("checkpoint had no effect")
    assert job.message("Degraded").endswith(ERROR)


def test_of_several_workers_the_first_is_named_and_the_others_counted() -> None:
    job = Lifecycle("worker-0:R worker-1:R worker-2:R", worker={"replicas": 3})
    job.reconcile("worker-0:S worker-1:R worker-2:R")
    late, first = "2030-01-02T03:04:09Z", "2030-01-02T03:04:05Z"
    failed = [
        pod("worker-1", "F", exit_code=1, finished_at=late),
        pod("worker-2", "F", exit_code=1, finished_at=first, message=ERROR),
    ]
    job.reconcile([pod("worker-0", "S"), *failed])
    assert "worker-2 (pod" in job.message("Degraded")
    assert job.message("Degraded").endswith(f"{ERROR}, and 1 other worker failed")


def test_a_job_that_failed_names_its_cause_alone() -> None:
    job = Lifecycle(BOTH, runPolicy={"backoffLimit": 0})
    job.reconcile("worker-0:R worker-1:F")
    assert job.status["phase"] == "Failed"
    assert event_reasons(job.reconcile("worker-0:F worker-1:F")) == []
