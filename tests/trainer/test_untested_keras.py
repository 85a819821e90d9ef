"""A Keras that the trainer was not tested with ends a job that needs more than `fit` by itself, and no other one."""

from typing import Any

import keras
import pytest
from support.replica_jobs import CHECKPOINT, EXPORT, WORKER

from tfdist.contract import ReplicaJob
from tfdist_trainer import script_end
from tfdist_trainer.keras import untested
from tfdist_trainer.upstream import keras_fit

pytestmark = pytest.mark.trainer


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"checkpoint": CHECKPOINT}, "checkpoint"),
        ({"evaluation": {"metric": "val_loss"}}, "evaluation"),
        ({"checkpoint": CHECKPOINT, "export": EXPORT}, "checkpoint and training.export"),
        ({"replicas": {"worker": 2}}, "fit on several workers"),
        ({}, ""),
        ({"replicas": {"worker": 2}, "strategy": "Independent"}, ""),
        ({"role": "evaluator", "checkpoint": CHECKPOINT}, ""),
    ],
)
def test_a_fit_that_the_job_needs_more_of_ends_with_78(
    fields: dict[str, Any], needs: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # given
    ends: list[Any] = []
    wrapped: list[Any] = []
    monkeypatch.setenv("TFDIST_JOB", ReplicaJob.model_validate(WORKER | fields).to_json())
    monkeypatch.setattr(keras, "__version__", "3.8.0")
    monkeypatch.setattr(keras_fit, "wrap", lambda _, wrapper: wrapped.append(wrapper(None)))
    monkeypatch.setattr(script_end, "leave", lambda *end: ends.append(end))
    # when
    untested.install.__wrapped__(may_train_alone=False)
    for fit in wrapped:
        fit("model")
    # then
    assert "keras-fit-off keras=3.8.0" in "".join(capfd.readouterr())
    assert [end[2] for end in ends] == ([78] if needs else [])
    for _, message, _ in ends:
        assert message.startswith(f"Keras 3.8.0: {needs} of this job needs keras>=3.15.1,<3.16")


def test_workers_that_may_train_alone_need_no_more() -> None:
    job = ReplicaJob.model_validate(WORKER | {"replicas": {"worker": 2}})
    assert untested.needs_of(job, may_train_alone=True) == ""
