"""A `fit` that each of several workers runs alone is reported once, and ends a job that asks for one training."""

import json
from typing import Any

import pytest
from support.replica_jobs import CHECKPOINT, EXPORT, WORKER

from tfdist.contract import ReplicaJob
from tfdist_trainer import environment, script, script_end
from tfdist_trainer.keras import trained_alone
from tfdist_trainer.keras.needs import trains_together
from tfdist_trainer.keras.trained_alone import TrainedAlone
from tfdist_trainer.upstream.strategy_worker import Worker

pytestmark = pytest.mark.trainer

TWO = WORKER | {"index": 1, "replicas": {"worker": 2}}


def job(**fields: Any) -> ReplicaJob:
    return ReplicaJob.model_validate_json(json.dumps(TWO | fields))


class Model:
    """A model of a strategy: None, or that of all workers."""

    name = "dense"

    def __init__(self, strategy: Any = None) -> None:
        self.distribute_strategy = strategy


class Left(Exception):  # noqa: N818  the end of the process
    pass


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The reports, and the ends of the process."""
    calls: list[Any] = []

    def leave(reason: str, message: str, exit_code: int) -> None:
        calls.append((reason, message, int(exit_code)))
        raise Left

    monkeypatch.setattr(script, "report_training_alone", lambda: calls.append("alone"))
    monkeypatch.setattr(script_end, "leave", leave)
    monkeypatch.setattr(trained_alone, "worker_of", lambda strategy: Worker(0, 2, 1) if strategy else None)
    return calls


def fit_of(spec: ReplicaJob, inner: Any = lambda *_: "history") -> Any:
    return TrainedAlone(spec, "TFDIST_KERAS_FIT=alone").wrap_fit(inner)


def test_the_first_fit_without_the_strategy_is_reported_once(
    seen: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    fit = fit_of(job())
    assert [fit(Model()), fit(Model())] == ["history", "history"]
    assert seen == ["alone"]
    log = "".join(capfd.readouterr())
    assert log.count("trained-alone") == 1
    assert "fit runs on each of 2 workers alone" in log


@pytest.mark.parametrize("asked", [{"checkpoint": CHECKPOINT}, {"checkpoint": CHECKPOINT, "export": EXPORT}])
def test_a_job_that_asks_for_one_training_ends_with_78(seen: list[Any], asked: dict[str, Any]) -> None:
    with pytest.raises(Left):
        fit_of(job(**asked))(Model())
    reported, (reason, message, exit_code) = seen
    assert (reported, reason, exit_code) == ("alone", "Configuration", 78)
    assert "create, load and compile the model in strategy.scope()" in message
    assert "remove checkpoint and training.export, and set TFDIST_KERAS_FIT=alone" in message


def test_a_fit_of_all_workers_is_left_alone_and_so_is_one_in_its_callback(seen: list[Any]) -> None:
    spec = job(checkpoint=CHECKPOINT)
    wrapper = TrainedAlone(spec, "x")
    probe = wrapper.wrap_fit(lambda *_: "probe")
    assert wrapper.wrap_fit(lambda *_: probe(Model()))(Model("all workers")) == "probe"
    assert seen == []


@pytest.mark.parametrize(
    ("fields", "together"),
    [
        ({}, True),
        ({"role": "chief", "replicas": {"chief": 1, "worker": 1}}, True),
        ({"replicas": {"worker": 1}}, False),
        ({"strategy": "Independent"}, False),
        ({"strategy": "ParameterServer"}, False),
        ({"strategy": "Custom"}, False),
        ({"task": "Evaluate"}, False),
        ({"role": "evaluator"}, False),
    ],
)
def test_only_workers_that_train_one_model_are_checked(fields: dict[str, Any], together: bool) -> None:
    assert trains_together(job(**fields)) is together


def test_a_replica_is_known_without_tf_config() -> None:
    environ = {"TFDIST_JOB": json.dumps(TWO), "TFDIST_ROUND": "3", "TF_CONFIG": "{"}
    replica, round_number = environment.read_replica(environ)
    assert (replica.replicas, round_number) == ({"worker": 2}, 3)


def test_a_script_with_parameter_servers_reports(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # given strategy Custom, whose cluster may have any roles
    cluster = {"worker": ["a:1"], "ps": ["b:1"]}
    monkeypatch.setenv("TFDIST_JOB", json.dumps(TWO | {"strategy": "Custom", "role": "ps", "attempt": 2}))
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}}))
    monkeypatch.setenv("TFDIST_REPORT_PORT", "0")
    # when
    reported = script.ScriptReports()
    reported.report(step=7)
    # then
    current = reported.reporter.current
    assert (current.role, current.attempt, current.step) == ("ps", 2, 7)
    assert "no-report" not in "".join(capfd.readouterr())
