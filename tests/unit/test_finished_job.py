"""A changed specification of a finished job: it does not run, and the status, an event and the webhook report that."""

from collections.abc import Callable
from typing import Any

import pytest
from support.factories import Lifecycle, event_reasons, manifest, pod

from tfdist_operator.webhook.admission import Review, review

BOTH = "worker-0:R worker-1:R"
REMEDY = "because the job has finished: delete the job first, and create it again (kubectl replace --force -f FILE)"


def failed() -> Lifecycle:
    """Return a job that failed in generation 1."""
    story = Lifecycle(BOTH)
    story.reconcile([pod("worker-0", "F", exit_code=64), pod("worker-1")])
    assert story.status["phase"] == "Failed"
    return story


def succeeded() -> Lifecycle:
    """Return a job that succeeded in generation 1."""
    story = Lifecycle(BOTH)
    story.reconcile("worker-0:S worker-1:S")
    return story


@pytest.mark.parametrize(("make", "kind"), [(failed, "Failed"), (succeeded, "Succeeded")])
def test_a_changed_finished_job_reports_once_that_it_must_be_deleted_first(
    make: Callable[[], Lifecycle], kind: str
) -> None:
    story = make()
    before = story.message(kind)
    moment = story.status["completionTime"]
    todo = story.reconcile(after=60, generation=2)
    assert event_reasons(todo) == ["ChangeNotApplied"]
    text = f"the specification of generation 2 does not run, {REMEDY}"
    assert story.message(kind) == story.status["summary"]["message"] == f"{before}; {text}"
    assert todo.events[0].message == text
    assert (story.status["phase"], story.status["completionTime"], todo.creates) == (kind, moment, ())
    again = story.reconcile(after=60, generation=2)
    assert (again.status, again.events) == (None, ())


def test_the_message_names_the_newest_generation_only() -> None:
    story = failed()
    story.reconcile(generation=2)
    story.reconcile(generation=4)
    assert story.message("Failed").count("does not run") == 1
    assert "generation 4 does not run" in story.message("Failed")


def test_an_unchanged_finished_job_reports_nothing() -> None:
    story = failed()
    story.reconcile(after=60)
    assert "does not run" not in story.message("Failed")


def finished(status: Any) -> dict[str, Any]:
    return {**manifest(), "status": status}


def test_the_webhook_warns_who_changes_a_finished_job() -> None:
    done = finished(failed().status)
    changed = manifest(worker={"replicas": 3})
    assert review(changed, done, {}).warnings == (f"spec: does not run, {REMEDY}",)
    assert review({**done, "metadata": {**done["metadata"], "labels": {"a": "b"}}}, done, {}) == Review()


@pytest.mark.parametrize("status", [None, {}, {"phase": "Running", "conditions": []}, {"conditions": [1]}, []])
def test_the_webhook_does_not_warn_of_the_change_of_any_other_job(status: Any) -> None:
    assert review(manifest(worker={"replicas": 3}), finished(status), {}) == Review()
