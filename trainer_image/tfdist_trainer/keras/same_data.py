"""Whether all workers have the same data: a fingerprint of the first global batch of each, which is compared once.

Each worker takes its rows of the same batches. If one has another order, some rows are used twice and others never.
"""

import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

_MOST_VALUES: Final = 4096
"""Values of each part that a fingerprint is of."""
_TOLERANCE: Final = 1e-3
"""Of sums of numbers: computers of different kinds round differently."""

Fingerprint = tuple[float, float]
"""A checksum of integers and texts, exact, and a sum of other numbers, from -1 to 1."""
UNKNOWN: Final[Fingerprint] = (-1.0, 0.0)


class FirstBatch:
    """Takes the fingerprint of the first batch of a data set while it is read."""

    def __init__(self, *, of_arrays: bool) -> None:
        """Take it of all parts of arrays. In any other data features may be augmented randomly: take it of the labels.

        Args:
            of_arrays: whether the batches are of arrays.
        """
        self.of_arrays = of_arrays
        self.fingerprint = UNKNOWN

    def observe(self, number: tf.Tensor, batch: Any) -> None:
        """Take the fingerprint of `batch`, in the graph of a data set, if its `number`, int64 [], is 0."""
        has_labels = isinstance(batch, tuple) and len(batch) > 1
        # Features may be augmented at random on each worker; labels are not.
        compared = batch[1] if has_labels and not self.of_arrays else batch
        flat = tf.nest.flatten(compared, expand_composites=True)
        tensors = [each for each in flat if isinstance(each, tf.Tensor) and each.dtype not in {tf.variant, tf.resource}]
        if tensors:

            def take() -> tf.Tensor:
                return tf.numpy_function(self._take, tensors, tf.bool)

            tf.cond(tf.equal(number, 0), take, lambda: False)

    def _take(self, *parts: Any) -> np.bool_:
        self.fingerprint = fingerprint([np.asarray(part) for part in parts])
        return np.True_


def fingerprint(parts: list[npt.NDArray[Any]]) -> Fingerprint:
    """Return the fingerprint of the values and of their order."""
    checksum, total, scale = 0, 0.0, 0.0
    for part in parts:
        values = part.reshape(-1)[:: max(1, part.size // _MOST_VALUES)]
        if values.dtype.kind in "fc" or values.dtype.name == "bfloat16":
            weighted = np.nan_to_num(np.abs(values) if values.dtype.kind == "c" else values.astype(np.float64))
            # Weights by position, so that another order has another sum.
            weighted = np.clip(weighted, -1e30, 1e30) * np.cos(np.arange(1, len(values) + 1))
            total, scale = total + float(weighted.sum()), scale + float(np.abs(weighted).sum())
        else:
            is_text = values.dtype.kind in "OSU"
            checksum = zlib.crc32(repr(values.tolist()).encode() if is_text else values.tobytes(), checksum)
    return float(checksum), total / scale if scale else 0.0


def first_difference(rows: npt.NDArray[np.float64]) -> int | None:
    """Return the first worker with other data than worker 0, from the fingerprint of each; None if there is none."""
    known = (rows[:, 0] >= 0) & (rows[0, 0] >= 0)
    differs = known & ((rows[:, 0] != rows[0, 0]) | (np.abs(rows[:, 1] - rows[0, 1]) > _TOLERANCE))
    return int(np.argmax(differs)) if differs.any() else None
