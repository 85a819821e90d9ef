"""Variables in the checkpoint of a script."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist_trainer.errors import StorageError
from tfdist_trainer.keras import training_state
from tfdist_trainer.keras.training_state import FitSnapshot
from tfdist_trainer.stored_checkpoint import stored_checkpoint

pytestmark = pytest.mark.trainer


def dense(units: int, dtype: str = "float32") -> Any:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(units, dtype=dtype)])
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_variables_of_each_type_are_restored(dtype: str, tmp_path: Path) -> None:
    # given
    before, after = dense(3, dtype), dense(3, dtype)
    FitSnapshot(dict(training_state.variables("model/0", before, before.variables)), {}).write(
        str(tmp_path / "variables")
    )
    # when
    training_state.assign("model/0", after, after.variables, training_state.read(stored_checkpoint(tmp_path)), "here")
    # then
    for one, other in zip(before.get_weights(), after.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_snapshot_does_not_change_when_training_goes_on() -> None:
    # given
    model = dense(3)
    expected = [weight.copy() for weight in model.get_weights()]
    snapshot = dict(training_state.variables("model/0", model, model.variables))
    # when
    for variable in model.variables:
        variable.value.assign_add(tf.ones(variable.shape), read_value=False)  # in place, as a step does
    # then
    assert not np.array_equal(model.get_weights()[0], expected[0])
    for weight, array in zip(expected, snapshot.values(), strict=True):
        np.testing.assert_array_equal(weight, np.asarray(array))


def test_a_checkpoint_of_another_model_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    model, other = dense(3), dense(4)
    snapshot = FitSnapshot(dict(training_state.variables("model/0", model, model.variables)), {})
    with pytest.raises(StorageError, match=r"is a checkpoint of another model, .* use another checkpoint\.directory"):
        training_state.assign("model/0", other, other.variables, snapshot, str(tmp_path))


def test_a_checkpoint_of_a_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="is no checkpoint of a script"):
        training_state.read(stored_checkpoint(tmp_path))
