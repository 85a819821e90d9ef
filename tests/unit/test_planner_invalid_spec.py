"""A running job whose specification becomes invalid continues with its last valid one."""

from typing import Any

import pytest
from support.edited import BOTH, INVALID, NEW, OLD, Edited, images
from support.factories import (
    EVALUATED,
    created,
    deleted,
    event_reasons,
    manifest,
    pod,
    report,
    termination_message,
    view,
)

from tfdist.validation import ValidationFailed, parse

PS = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "command": ["run"]}
PS_RUNS = "chief-0:R worker-0:R worker-1:R ps-0:R"


def broken(**policy: Any) -> Edited:
    """Return a running job that has just become invalid."""
    job = Edited(BOTH, **OLD)
    job.edit(**INVALID, runPolicy=policy)
    return job


def test_a_running_job_that_becomes_invalid_continues_and_names_its_generation() -> None:
    job = broken()
    todo = job.reconcile(BOTH)
    assert (created(todo), deleted(todo), event_reasons(todo)) == ([], [], ["Invalid"])
    assert (job.status["phase"], job.condition_status("Invalid")) == ("Running", ("True", "InvalidUpdate"))
    assert job.message("Invalid").endswith("; the job continues with the specification of generation 1")
    todo = job.reconcile(BOTH)
    assert (todo.status, todo.events, deleted(todo)) == (None, (), [])


@pytest.fixture(params=["known", "unknown"])
def invalid(request: pytest.FixtureRequest) -> Any:
    """Return a running job that became invalid while its controller ran, or while no controller ran."""

    def make(**policy: Any) -> Edited:
        job = Edited(BOTH, **OLD)
        if request.param == "unknown":
            job.restart_controller()
        job.edit(**INVALID, runPolicy=policy)
        return job

    return make


def test_an_invalid_job_is_suspended_and_stays_so_until_it_is_corrected(invalid: Any) -> None:
    job = invalid(suspend=True)
    assert deleted(job.reconcile(BOTH)) == ["worker-0", "worker-1"]
    job.reconcile("")
    assert job.status["phase"] == "Suspended"
    job.edit(**INVALID)
    assert created(job.reconcile("")) == []
    assert job.status["phase"] == "Invalid"
    job.edit(**NEW)
    todo = job.reconcile("")
    assert (created(todo), images(todo)) == (["worker-0-r1", "worker-1-r1"], {"team/train:2"})
    assert job.condition_status("Invalid") == ("False", "SpecValid")


def test_an_invalid_job_succeeds_when_its_leader_does(invalid: Any) -> None:
    job = invalid(cleanPodPolicy="All")
    job.reconcile(BOTH)
    job.reconcile([pod("worker-0", "S", message=termination_message(step=3)), pod("worker-1")])
    assert job.status["phase"] == "Succeeded"
    assert sorted(deleted(job.reconcile("worker-0:S worker-1:R", after=60))) == ["worker-0", "worker-1"]


def test_the_deadline_of_an_invalid_job_ends_it(invalid: Any) -> None:
    job = invalid(activeDeadlineSeconds=100)
    assert job.reconcile(BOTH, report=report()).requeue_after_seconds == 100
    job.reconcile(BOTH, after=101)
    assert job.condition_status("Failed") == ("True", "ActiveDeadlineExceeded")


def test_an_invalid_job_that_has_ended_is_deleted_after_its_time_to_live(invalid: Any) -> None:
    job = invalid(ttlSecondsAfterFinished=60)
    job.reconcile("worker-0:S worker-1:S")
    assert job.reconcile("worker-0:S worker-1:S", after=61).delete_job


def test_an_invalid_job_fails_on_a_user_error_of_its_program(invalid: Any) -> None:
    job = invalid()
    job.reconcile([pod("worker-0"), pod("worker-1", "F", exit_code=78)])
    assert job.status["phase"] == "Failed"


def test_the_next_attempt_of_an_invalid_job_has_its_last_valid_specification() -> None:
    job = broken()
    job.reconcile("worker-0:R worker-1:F")
    todo = job.reconcile("worker-1:F", after=60)
    assert (created(todo), images(todo)) == (["worker-0-r1", "worker-1-r1"], {"team/train:1"})
    job.restart_controller()
    todo = job.reconcile("worker-0-r1:P")
    assert (created(todo), images(todo)) == (["worker-1-r1"], {"team/train:1"})


def test_where_no_valid_specification_is_known_the_next_attempt_waits_for_the_correction() -> None:
    job = Edited(BOTH, **OLD)
    job.restart_controller()
    job.edit(**INVALID)
    job.reconcile("worker-0:R worker-1:F")
    assert created(job.reconcile("worker-1:F", after=60)) == []
    assert "is not created until the specification is corrected" in job.message("PodsReady")
    assert "no pod is created until the specification is corrected" in job.message("Invalid")
    job.edit(**NEW)
    todo = job.reconcile("worker-1:F")
    assert (created(todo), images(todo)) == (["worker-0-r1", "worker-1-r1"], {"team/train:2"})


def test_a_failed_worker_of_parameter_servers_waits_for_the_correction_while_the_others_continue() -> None:
    job = Edited(PS_RUNS, **PS, **OLD)
    job.restart_controller()
    job.edit(**PS, **INVALID)
    todo = job.reconcile("chief-0:R worker-0:R ps-0:R")
    assert (created(todo), deleted(todo)) == ([], [])


def test_a_job_that_was_invalid_before_it_started_waits() -> None:
    job = Edited(**INVALID)
    assert created(job.reconcile()) == []
    assert job.status["phase"] == "Invalid"


def test_the_gangs_of_an_unreadable_job_are_those_that_it_was_started_with() -> None:
    spec = {"chief": {}, "evaluation": {"mode": "Both", "replicas": 2}, "checkpoint": EVALUATED["checkpoint"]}
    job = Edited("chief-0:R worker-0:R worker-1:R evaluator-0:R", **OLD, **spec)
    desired = {role: counts["desired"] for role, counts in job.status["replicas"].items()}
    assert desired == {"chief": 1, "worker": 2, "evaluator": 1, "evaluation": 2}
    job.restart_controller()
    job.edit(
        worker="nonsense", chief=[], evaluation=7, image={"x": 1}, runPolicy={"suspend": False, "backoffLimit": "y"}
    )
    todo = job.reconcile("chief-0:R worker-0:R worker-1:R evaluator-0:R")
    assert (created(todo), deleted(todo), job.status["phase"]) == ([], [], "Running")
    assert {role: counts["desired"] for role, counts in job.status["replicas"].items()} == desired


def test_the_fixture_is_invalid() -> None:
    with pytest.raises(ValidationFailed):
        parse(manifest(**INVALID))
    assert view(spec=NEW).job is not None


def test_many_errors_leave_room_for_what_the_job_does_meanwhile() -> None:
    """Given a running job that becomes invalid by hundreds of errors; then the condition has how it continues."""
    job = Edited(BOTH, **OLD)
    job.edit(template={"spec": {"tolerations": [{"unknown": 1}] * 300}})
    job.reconcile()
    message = job.message("Invalid")
    assert message.startswith("spec.template.spec.tolerations[0].unknown: unknown field")
    assert "; and at least " in message
    assert message.endswith("more errors; the job continues with the specification of generation 1")
