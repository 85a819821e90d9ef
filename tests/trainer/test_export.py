"""Exports: complete or absent, and a model or directory that does not allow one is named with its field."""

import errno
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from support.checkpoint_writers import by
from trainer import exported

from tfdist.api.export import ExportedModel
from tfdist.contract import ExportSettings
from tfdist_trainer.errors import CheckpointUnwritableError, ConfigurationError, StorageError
from tfdist_trainer.export import export

pytestmark = pytest.mark.trainer

ROWS = np.ones([2, 3], "float32")


@pytest.fixture
def model() -> Any:
    return keras.Sequential([keras.Input([3]), keras.layers.Dense(2)])


def settings(folder: Path, *formats: str) -> ExportSettings:
    return ExportSettings(directory=str(folder), formats=[*formats] or exported.FORMATS, which=[*ExportedModel])


def test_each_format_predicts_as_the_model_does(model: Any, tmp_path: Path) -> None:
    # when
    report = export(settings(tmp_path / "models"), ExportedModel.BEST, model, 7, by())
    # then
    assert (report.which, report.step) == ("Best", 7)
    for found in exported.predictions(tmp_path / "models/best", ROWS):
        np.testing.assert_allclose(found, model(ROWS).numpy(), rtol=1e-6)


def test_an_earlier_export_is_replaced_as_a_whole(model: Any, tmp_path: Path) -> None:
    # given an earlier one in both formats, and what an interrupted one has left
    export(settings(tmp_path), ExportedModel.FINAL, model, 1, by())
    (tmp_path / ".final/.tmp-0-worker-9").mkdir()
    (tmp_path / ".final/.tmp-0-worker-9/model.keras").touch()
    # when
    export(settings(tmp_path, "Keras"), ExportedModel.FINAL, model, 2, by())
    # then
    assert sorted(path.name for path in tmp_path.iterdir()) == [".final", "final"]
    assert [path.name for path in (tmp_path / ".final").iterdir()] == ["fence.json"], "the claim of the last writer"
    assert sorted(path.name for path in (tmp_path / "final").iterdir()) == ["model.keras"]


class Unsavable(keras.layers.Layer):  # type: ignore[misc]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        return self.function(x)


def test_a_model_that_cannot_be_saved_leaves_the_earlier_export(model: Any, tmp_path: Path) -> None:
    # given
    export(settings(tmp_path, "Keras"), ExportedModel.FINAL, model, 1, by())
    before = (tmp_path / "final/model.keras").read_bytes()
    unsavable = keras.Sequential([keras.Input([3]), Unsavable(lambda x: x + 1)])
    # when
    with pytest.raises(ConfigurationError, match=r"training\.export\.formats: the model cannot be saved as Keras: "):
        export(settings(tmp_path, "Keras"), ExportedModel.FINAL, unsavable, 2, by())
    # then
    assert (tmp_path / "final/model.keras").read_bytes() == before


def test_a_directory_that_cannot_be_written_is_named(model: Any, tmp_path: Path) -> None:
    # given a file in its place
    (tmp_path / "models").touch()
    # when
    where = r"training\.export\.directory: cannot write .*/models/\.final: Not a dir"
    with pytest.raises(CheckpointUnwritableError, match=where):
        export(settings(tmp_path / "models"), ExportedModel.FINAL, model, 1, by())


def test_a_full_disk_fails_the_export_and_may_be_tried_again(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model, "save", full)
    # when
    with pytest.raises(StorageError, match=r"training\.export\.directory: cannot write .*: No space left on device"):
        export(settings(tmp_path), ExportedModel.FINAL, model, 1, by())
    # then
    assert not (tmp_path / "final").exists()
