"""When `fit` is prepared for a script, and that it leaves a Keras that it was not tested with alone."""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import pytest

from tfdist_trainer import keras_import
from tfdist_trainer.keras import engine
from tfdist_trainer.keras_import import has_several_workers, runs_script

pytestmark = pytest.mark.trainer

TWO: dict[str, Any] = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 0}}


def environ(config: Any = TWO, job: Any = None, **others: str) -> dict[str, str]:
    return {"TFDIST_JOB": json.dumps(job or {}), "TF_CONFIG": json.dumps(config)} | others


def test_a_script_of_a_job_gets_progress_and_one_of_several_workers_the_engine() -> None:
    assert runs_script(environ())
    assert has_several_workers(environ())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(environ(TFDIST_KERAS_FIT="off"), id="it is switched off"),
        pytest.param(environ(TF_USE_LEGACY_KERAS="1"), id="the script uses tf_keras"),
        pytest.param(environ(job={"training": {"program": "tabular"}}), id="the bundled trainer runs"),
    ],
)
def test_other_processes_leave_fit_to_keras(other: dict[str, str]) -> None:
    assert not runs_script(other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            environ({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}), id="one worker"
        ),
        pytest.param(environ(TWO | {"task": {"type": "evaluator", "index": 0}}), id="an evaluator"),
        pytest.param(environ(TWO | {"cluster": TWO["cluster"] | {"ps": ["c:1"]}}), id="parameter servers"),
        pytest.param(environ([]), id="TF_CONFIG is no object"),
        pytest.param(environ() | {"TF_CONFIG": "{"}, id="TF_CONFIG is no JSON"),
        pytest.param({"TFDIST_JOB": "{}"}, id="no TF_CONFIG"),
    ],
)
def test_a_script_without_several_workers_gets_progress_only(other: dict[str, str]) -> None:
    assert runs_script(other)
    assert not has_several_workers(other)


def test_a_search_for_keras_leaves_fit_to_the_import(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # given a process that has not imported Keras; site-packages may run the .pth file twice
    (tmp_path / "keras.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "keras")
    before = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", [*before])
    for name, value in environ().items():
        monkeypatch.setenv(name, value)
    prepared: list[str] = []
    monkeypatch.setattr(keras_import, "prepare", lambda _: prepared.append("once"))
    keras_import.install()
    keras_import.install()
    # when TensorFlow searches for Keras as it is imported
    assert importlib.util.find_spec("keras") is not None
    assert prepared == []
    # then the import prepares `fit`
    importlib.import_module("keras")
    assert (prepared, sys.meta_path) == (["once"], before)


def test_a_version_of_keras_that_was_not_tested_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    monkeypatch.setattr(keras, "__version__", "3.99.0")
    before = keras.Model.fit
    # when
    engine.install.__wrapped__()
    # then
    assert keras.Model.fit is before
    assert 'keras-fit-off versions="keras 3.99.0" reason="tested with keras>=3' in capsys.readouterr().out


def test_another_backend_is_left_alone_with_a_line_in_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    keras_import.prepare()
    assert "keras-fit-off backend=jax" in capsys.readouterr().out


def test_a_module_of_the_script_with_the_name_of_keras_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ModuleType("keras")
    own.__file__ = "/code/keras.py"
    monkeypatch.setitem(sys.modules, "keras", own)
    keras_import.prepare()
    assert 'keras-fit-off keras=/code/keras.py reason="a module of the script, not Keras"' in capsys.readouterr().out
