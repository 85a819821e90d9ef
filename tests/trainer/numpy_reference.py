# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and the processes under test import it themselves
"""Loss and accuracy of a checkpoint by NumPy alone, to hold evaluations against."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def model_variables(path: Path) -> dict[tuple[int, ...], Array]:
    """Return the trainable variables of the `mlp` in a checkpoint by shape; no two of the four have the same."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(path / "variables"))
    # A variable has the name of the shortest way to it, which leads through the optimizer.
    names = [name for name in reader.get_variable_to_shape_map() if "_trainable_variables/" in name]
    values = [reader.get_tensor(name) for name in names]
    return {value.shape: value for value in values}


def metrics_by_numpy(path: Path, images: Array, labels: Array) -> dict[str, float]:
    """Return loss and accuracy of the `mlp` in a checkpoint, computed in float64 without TensorFlow."""
    variables = {shape: value.astype(np.float64) for shape, value in model_variables(path).items()}
    hidden = np.maximum(images.reshape(len(images), 25) / 255 @ variables[25, 128] + variables[128,], 0)
    logits = hidden @ variables[128, 4] + variables[4,]
    shifted = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    return {"loss": float(losses.mean()), "accuracy": float((logits.argmax(axis=1) == labels).mean())}


def evaluation_set(data: Path) -> tuple[Array, Array]:
    files = [np.load(data / f"eval-{shard}.npz") for shard in range(3)]
    return np.concatenate([f["image"] for f in files]), np.concatenate([f["label"] for f in files])
