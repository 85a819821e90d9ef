"""`make test-smoke`: from `kubectl apply` to an evaluated model, and to an error that its user can act on."""

import pytest
from support.e2e import Cluster, example
from support.failing_jobs import JobNamespace
from support.rounds import started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EPOCHS = 300
EXAMPLES = 400
"""Of the counting program; each is one of the numbers -399, -397, ... 399, whose squares have the mean 53,333."""


def test_a_job_whose_process_is_killed_trains_on_and_is_evaluated_while_another_fails_by_its_users_error(
    cluster: Cluster,
) -> None:
    # Given a gang of two that trains, and a job whose program rejects its settings
    jobs = JobNamespace(cluster)
    cluster.delete_job("smoke-error")
    evaluated = {"mode": "AfterTraining"}
    with started(cluster, "smoke", replicas=2, epochs=EPOCHS, evaluation=evaluated) as gang:
        jobs.start(example("smoke-error", metrics=["keras.NoSuchMetric"]))
        pods = gang.uids()

        # When a training process is killed
        recovered = gang.kill_program("worker-1")

        # Then the gang trains on in the same pods from its checkpoint, and the failure is recorded
        gang.steps_after(recovered, saved=True)
        (cause,) = gang.root_causes(1)
        assert (cause["role"], cause["index"], cause["reason"], cause["exitCode"]) == ("worker", 1, "Crash", 137)
        assert gang.uids() == pods

        # And the job succeeds, with every example evaluated once
        gang.hurry()
        status = jobs.ended("smoke", seconds=300)
        assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", 1), jobs.described("smoke")
        assert gang.each_example_once() == EPOCHS
        final = status["evaluation"]["final"]
        assert final["examples"] == EXAMPLES
        assert final["metrics"]["spread"] == pytest.approx((EXAMPLES**2 - 1) / 3)

    # And the other has failed at its first attempt, with the field in its message
    failed = jobs.ended("smoke-error", seconds=300)
    assert (failed["phase"], failed["attempt"]) == ("Failed", 0)
    condition = cluster.await_condition("smoke-error", "Failed", "UserError", 60)
    assert "training.config.metrics" in condition["message"]
    cluster.delete_job("smoke-error")
