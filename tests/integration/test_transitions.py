"""The fields of a job that may change: all before its start, few after it; and no other manager may take it over."""

import copy
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.api import JOBS, Api, Json
from support.factories import CHECKPOINT, manifest

from tfdist.api.transitions import TRANSITION_RULES

pytestmark = pytest.mark.integration

IMMUTABLE = "is immutable once the job has started; delete and recreate the job"
SUSPENDED: Json = {"runPolicy": {"suspend": True}}
ONE: Json = {"worker": {"replicas": 1}}
PS: Json = {"strategy": "ParameterServer", "chief": {"replicas": 1}, "ps": {"replicas": 1}}
ROLES: Json = {"strategy": "Custom", "chief": {"replicas": 1}, "ps": {"replicas": 1}, "evaluator": {"replicas": 1}}


@dataclass(frozen=True)
class Change:
    """A merge patch of the specification, the job it is made to, and why it is rejected after the start."""

    name: str
    patch: Json
    why: str
    spec: Json = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


FIXED = (
    Change("the strategy", {"strategy": "Mirrored"}, f"spec.strategy {IMMUTABLE}", ONE),
    Change("the task", {"task": "Evaluate"}, f"spec.task {IMMUTABLE}", {"checkpoint": CHECKPOINT}),
    Change("a chief that joins", {"chief": {}}, "chief cannot be added or removed"),
    Change("a chief that leaves", {"chief": None}, "chief cannot be added or removed", {"chief": {}}),
    Change("a chief of no replica", {"chief": {"replicas": 0}}, f"chief.replicas {IMMUTABLE}", {"chief": {}}),
    Change("workers that join", {"worker": {}}, "worker cannot be added or removed", {"worker": None, "chief": {}}),
    Change("workers that leave", {"worker": None}, "worker cannot be added or removed", {"chief": {}}),
    Change("more workers", {"worker": {"replicas": 3}}, "worker.replicas of a running job is immutable; suspend"),
    Change("parameter servers that join", {"ps": {}}, "ps cannot be added or removed", {"strategy": "Custom"}),
    Change("parameter servers that leave", {"ps": None}, "ps cannot be added or removed", ROLES),
    Change("more parameter servers", {"ps": {"replicas": 2}}, f"ps.replicas {IMMUTABLE}", PS),
    Change("an evaluator that joins", {"evaluator": {}}, "evaluator cannot be added or removed"),
    Change("an evaluator that leaves", {"evaluator": None}, "evaluator cannot be added or removed", ROLES),
    Change("an evaluator of no replica", {"evaluator": {"replicas": 0}}, f"evaluator.replicas {IMMUTABLE}", ROLES),
    Change(
        "another directory",
        {"checkpoint": {"directory": "/other"}},
        f"checkpoint.directory {IMMUTABLE}",
        {"checkpoint": CHECKPOINT},
    ),
    Change("checkpoints that begin", {"checkpoint": CHECKPOINT}, f"checkpoint.directory {IMMUTABLE}"),
    Change(
        "checkpoints that end", {"checkpoint": None}, f"checkpoint.directory {IMMUTABLE}", {"checkpoint": CHECKPOINT}
    ),
    Change("another scheduler", {"scheduling": {"gang": "None"}}, f"spec.scheduling.gang {IMMUTABLE}"),
)

FREE = (
    Change("the number of restarts", {"runPolicy": {"backoffLimit": 9}}, ""),
    Change("a deadline", {"runPolicy": {"activeDeadlineSeconds": 60}}, ""),
    Change("suspension", SUSPENDED, ""),
    Change("the rest of checkpoints", {"checkpoint": {"keep": 9}}, "", {"checkpoint": CHECKPOINT}),
    Change("the workers of a suspended job", {"worker": {"replicas": 3}}, "", SUSPENDED),
    Change("the workers of a job that is suspended by it", {**SUSPENDED, "worker": {"replicas": 3}}, ""),
    Change(
        "the workers of a job that is resumed by it",
        {"runPolicy": {"suspend": False}, "worker": {"replicas": 3}},
        "",
        SUSPENDED,
    ),
)

MANAGER = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
MANAGERS = (
    Change("a manager that comes", MANAGER, "runPolicy.managedBy is immutable"),
    Change("a manager that goes", {"runPolicy": {"managedBy": None}}, "runPolicy.managedBy is immutable", MANAGER),
    Change("another manager", MANAGER, "managedBy is immutable", {"runPolicy": {"managedBy": "tfdist.dev/controller"}}),
)


def create(api: Api, namespace: str, change: Change, *, started: bool) -> None:
    """Create the job; it has started once the controller has stored an attempt."""
    made = manifest("job", namespace, **copy.deepcopy(change.spec))
    made["spec"] = {k: v for k, v in made["spec"].items() if v is not None}
    api.create_job(made)
    if started:
        api.do("PATCH", f"{JOBS.format(ns=namespace)}/job/status", {"status": {"attempt": 0}}, "merge-patch")


def make(api: Api, namespace: str, change: Change) -> Any:
    return api.send("PATCH", f"{JOBS.format(ns=namespace)}/job", {"spec": change.patch}, "merge-patch")


@pytest.mark.parametrize("change", FIXED, ids=str)
def test_before_the_start_it_may_change(api: Api, namespace: str, change: Change) -> None:
    create(api, namespace, change, started=False)
    answer = make(api, namespace, change)
    assert answer.ok, answer.text


@pytest.mark.parametrize("change", FIXED, ids=str)
def test_after_the_start_it_is_rejected_with_the_reason(api: Api, namespace: str, change: Change) -> None:
    create(api, namespace, change, started=True)
    answer = make(api, namespace, change)
    assert answer.status_code == 422, answer.text
    assert change.why in answer.json()["message"]


@pytest.mark.parametrize("change", FREE, ids=str)
def test_after_the_start_it_may_still_change(api: Api, namespace: str, change: Change) -> None:
    create(api, namespace, change, started=True)
    answer = make(api, namespace, change)
    assert answer.ok, answer.text


@pytest.mark.parametrize("started", [False, True], ids=["before the start", "after it"])
@pytest.mark.parametrize("change", MANAGERS, ids=str)
def test_no_other_manager_takes_a_job_over(api: Api, namespace: str, change: Change, started: bool) -> None:
    create(api, namespace, change, started=started)
    answer = make(api, namespace, change)
    assert answer.status_code == 422, answer.text
    assert change.why in answer.json()["message"]


def test_the_status_of_the_controller_is_never_rejected(api: Api, namespace: str) -> None:
    create(api, namespace, FIXED[0], started=True)
    status = {"status": {"attempt": 1, "phase": "Running"}}
    assert api.send("PATCH", f"{JOBS.format(ns=namespace)}/job/status", status, "merge-patch").ok


@pytest.mark.parametrize("rule", TRANSITION_RULES, ids=lambda rule: rule["fieldPath"])
def test_every_rule_of_transitions_rejects_a_change_above(rule: Json) -> None:
    assert any(change.why in rule["message"] for change in (*FIXED, *MANAGERS))
