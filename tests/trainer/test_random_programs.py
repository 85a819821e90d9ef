# ruff: noqa: PLC0415  TensorFlow takes seconds to import
"""Random models end by the trainer's own loop as by Keras' `fit`: one worker and two, as programs."""

import itertools
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from trainer.replicas import Launch

pytestmark = [pytest.mark.trainer, pytest.mark.long]

NUMBERS: Final = (*range(12), 17)
"""Of models with each optimizer and each of its options."""
EPOCHS: Final = 2
CASES: Final = tuple(itertools.product(NUMBERS, (1, 2)))
EXPORT: Final = {"formats": ["Keras"], "which": ["Final"]}
TOLERANCE: Final = 1e-5
"""Of each weight, relative to the largest one of its array, or absolute if all are below one."""


def by_keras(number: int, batch: int) -> tuple[list[Any], int]:
    """Return the weights after `fit`, and the number of examples.

    Examples that would not fill the last batch are left out of a model with BatchNormalization: there a program repeats
    others.
    """
    import keras
    from keras3.random_models import Case

    case = Case(number)
    x, y, weights = case.arrays()
    model = case.model()
    normalizes = any(isinstance(layer, keras.layers.BatchNormalization) for layer in model.layers)
    examples = len(x) // batch * batch if normalizes else len(x)
    model.compile(case.optimizer(), case.losses, loss_weights=case.loss_weights)
    arrays = [[each[:examples] for each in part] for part in (y, weights or ())]
    options: dict[str, Any] = {"sample_weight": arrays[1]} if weights else {}
    model.fit(x[:examples], arrays[0], batch_size=batch, epochs=EPOCHS, shuffle=False, verbose=0, **options)
    return model.get_weights(), examples


@pytest.mark.parametrize(("number", "workers"), CASES)
def test_a_random_model_ends_as_a_program_as_by_fit(
    number: int, workers: int, launch: "Launch", tmp_path: "Path"
) -> None:
    import keras
    from keras3.random_models import Added

    # given
    per_replica = 3 + number % 4
    expected, examples = by_keras(number, per_replica * workers)
    # when
    config = {"number": number, "examples": examples, "batchSizePerReplica": per_replica, "epochs": EPOCHS}
    training = {"program": "support.random_program:RandomProgram", "config": config | {"shuffleBuffer": 1}}
    storage = {"checkpoint": {"directory": f"{tmp_path}/checkpoints"}, "export": EXPORT | {"directory": str(tmp_path)}}
    gang = launch(workers, config={}, job={"training": training} | storage)
    assert gang.wait() == [0] * workers, gang.outputs
    # then
    (path,) = tmp_path.rglob("model.keras")
    found = keras.models.load_model(path, custom_objects={"Added": Added}, compile=False).get_weights()
    for actual, wanted in zip(found, expected, strict=True):
        scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
        np.testing.assert_allclose(actual, wanted, rtol=0, atol=TOLERANCE * scale)
