"""A Keras or TensorFlow that the trainer was not tested with ends a job that needs more than `fit`, and no other."""

import sys
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
from support.replica_jobs import CHECKPOINT, EXPORT, WORKER

from tfdist.contract import ReplicaJob
from tfdist_trainer import keras_import, script, script_end
from tfdist_trainer.keras import reporting, script_training, trained_alone
from tfdist_trainer.keras.needs import needs_of
from tfdist_trainer.upstream import versions

pytestmark = pytest.mark.trainer


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects (reason, message, exit code) of an end of this process, and gives `keras.Model.fit` back afterwards."""
    collected: list[Any] = []
    monkeypatch.setattr(script_end, "leave", lambda *end: collected.append(end))
    monkeypatch.setattr(keras.Model, "fit", keras.Model.fit)
    return collected


@pytest.fixture
def when_succeeded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects what is called when the script has succeeded."""
    collected: list[Any] = []
    monkeypatch.setattr(script_end, "when_succeeded", collected.append)
    monkeypatch.setattr(script, "_scripts", [])
    return collected


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
@pytest.mark.parametrize(
    ("package", "version"), [("keras", "2.15.0"), ("keras", "3.99.0"), ("tensorflow", "2.16.2"), ("tensorflow", "own")]
)
def test_a_fit_that_the_job_needs_more_of_ends_with_78(
    package: str,
    version: str,
    fields: dict[str, Any],
    needs: str,
    ends: list[Any],
    when_succeeded: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # given
    monkeypatch.setenv("TFDIST_JOB", ReplicaJob.model_validate(WORKER | fields).to_json())
    monkeypatch.setattr({"keras": keras, "tensorflow": tf}[package], "__version__", version)
    before = keras.Model.fit
    # when
    keras_import.prepare()
    # then one line is in the log, and nothing ends before `fit`
    assert f'keras-fit-off versions="{package} {version}"' in "".join(capfd.readouterr())
    assert (keras.Model.fit is before) == (not needs)
    assert ends == []
    assert len(when_succeeded) == (not needs)
    for report in when_succeeded:
        report()
        assert script.current_report().untested_versions == f"{package} {version}"
    if needs:
        keras.Model.fit("model")
        [(_, message, code)] = ends
        assert code == 78
        assert message.startswith(f"image: {needs} of this job needs {versions.REMEDY}, and the image has {package}")
        assert "set TFDIST_KERAS_FIT=untested to try" in message


def test_a_job_that_tries_untested_versions_gets_all_with_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # given
    monkeypatch.setenv("TFDIST_JOB", ReplicaJob.model_validate(WORKER | {"checkpoint": CHECKPOINT}).to_json())
    monkeypatch.setenv("TFDIST_KERAS_FIT", "untested")
    monkeypatch.setattr(keras, "__version__", "3.99.0")
    installed: list[str] = []
    for module in (script_training, reporting, trained_alone):
        monkeypatch.setattr(module, "install", lambda *_, name=module.__name__: installed.append(name))
    # when
    keras_import.prepare()
    # then
    assert len(installed) == 3
    assert 'keras-fit-untested versions="keras 3.99.0"' in "".join(capfd.readouterr())


def test_untested_versions_that_lack_a_hook_end_with_78(ends: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    # given
    monkeypatch.setenv("TFDIST_JOB", ReplicaJob.model_validate(WORKER).to_json())
    monkeypatch.setenv("TFDIST_KERAS_FIT", "untested")
    monkeypatch.setattr(keras, "__version__", "3.99.0")

    def install() -> None:
        raise ModuleNotFoundError("No module named 'keras.src.backend.tensorflow.trainer'")

    monkeypatch.setattr(script_training, "install", install)
    # when
    keras_import.prepare()
    # then
    [(_, message, code)] = ends
    assert code == 78
    assert message.startswith("image: fit cannot be prepared with keras 3.99.0: No module named 'keras.src")


def test_a_program_runs_with_untested_versions_and_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    versions.warn_if_untested()
    monkeypatch.setattr(tf, "__version__", "2.99.0")
    versions.warn_if_untested()
    assert "".join(capfd.readouterr()).count('versions-untested versions="tensorflow 2.99.0"') == 1


def test_workers_that_may_train_alone_need_no_more() -> None:
    job = ReplicaJob.model_validate(WORKER | {"replicas": {"worker": 2}})
    assert needs_of(job, may_train_alone=True) == ""


def test_a_module_with_another_fit_is_replaced_by_its_public_name(
    ends: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # given a Keras whose private modules have moved
    monkeypatch.setenv("TFDIST_JOB", ReplicaJob.model_validate(WORKER | {"checkpoint": CHECKPOINT}).to_json())
    model = type("Model", (), {"fit": lambda _: "trained"})
    other = SimpleNamespace(Model=model, __version__="4.0.0", config=SimpleNamespace(backend=lambda: "tensorflow"))
    monkeypatch.setitem(sys.modules, "keras", other)
    # when
    keras_import.prepare()
    model().fit()
    # then
    assert [code for _, _, code in ends] == [78]
