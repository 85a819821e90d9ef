"""Exported models, as a user loads them: with Keras or TensorFlow alone."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FORMATS = ["Keras", "SavedModel"]


def predictions(folder: Path, inputs: Any) -> Iterator[npt.NDArray[Any]]:
    """Yield the predictions of the model in `folder` for a batch, as loaded from each format."""
    import keras  # noqa: PLC0415  TensorFlow takes seconds to import
    import tensorflow as tf  # noqa: PLC0415

    yield keras.models.load_model(folder / "model.keras")(inputs).numpy()
    loaded = tf.saved_model.load(str(folder / "saved_model"))
    yield loaded.serve(inputs).numpy()


def check(folder: Path, program: Any, checkpoint: Path, columns: Mapping[str, Any]) -> None:
    """Check that the model in `folder` predicts from `columns` of files what `program` does with a `checkpoint`."""
    from tfdist_trainer.state import restore_model  # noqa: PLC0415

    model = program.model()
    restore_model(model, checkpoint)
    features, _ = program.example(dict(columns))
    label = getattr(program.config, "label", "label")
    inputs = {name: array for name, array in columns.items() if name != label}
    only = next(iter(inputs.values())) if program.serving_model(model) is model else inputs
    for found in predictions(folder, only):
        np.testing.assert_allclose(found, model(features).numpy(), rtol=1e-6, atol=1e-6)
