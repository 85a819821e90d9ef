"""Workers that each train a model of their own are a condition and one event of their job."""

from support.factories import Lifecycle, event_reasons, pod, report, termination_message

BOTH = "worker-0:R worker-1:R"
REMEDY = "fit runs on each of 2 workers alone; create, load and compile the model in strategy.scope()"


def test_a_report_of_a_worker_that_trains_alone_is_a_condition_and_one_event() -> None:
    job = Lifecycle(BOTH, training={"script": "/train.py"})
    first = job.reconcile(BOTH, report=report(step=1, trains_alone=True))
    again = job.reconcile(BOTH, report=report(step=2, trains_alone=True), after=60)
    assert job.condition_status("Degraded") == ("True", "TrainedAlone")
    assert job.message("Degraded") == REMEDY
    assert job.status["summary"]["message"] == REMEDY
    assert "TrainedAlone" in event_reasons(first)
    assert "TrainedAlone" not in event_reasons(again)


def test_a_job_that_ends_before_its_report_has_the_condition_too() -> None:
    job = Lifecycle(BOTH, training={"script": "/train.py"})
    text = termination_message(step=8, attempt=0, trainsAlone=True)
    todo = job.reconcile([pod("worker-0", "S", message=text), pod("worker-1", "S")])
    assert job.status["phase"] == "Succeeded"
    assert job.condition_status("Degraded") == ("True", "TrainedAlone")
    assert event_reasons(todo) == ["TrainedAlone", "Succeeded"]


def test_a_later_attempt_that_trains_one_model_ends_the_condition() -> None:
    job = Lifecycle(BOTH, training={"script": "/train.py"})
    job.reconcile(BOTH, report=report(step=1, trains_alone=True))
    job.reconcile("worker-0:R worker-1:F")
    after = "worker-0-r1:R worker-1-r1:R"
    job.reconcile(after, after=30)
    job.reconcile(after, report=report(step=1, attempt=1))
    assert job.condition_status("Degraded") == ("False", "TrainedAlone")


def test_workers_that_train_together_have_no_such_condition() -> None:
    job = Lifecycle(BOTH, training={"script": "/train.py"})
    job.reconcile(BOTH, report=report(step=1))
    assert not any(c["type"] == "Degraded" for c in job.status["conditions"])
