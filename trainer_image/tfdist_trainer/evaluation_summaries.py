"""What TensorBoard shows of evaluations: the run `evaluation`, with scalars, and images of what is no number.

That it cannot be written is logged, and never ends an evaluation.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.context import Context
from tfdist_trainer.errors import one_line
from tfdist_trainer.scores import Score
from tfdist_trainer.summaries import ScalarWriter, folder_of

RUN: Final = "evaluation"

SIDE: Final = 320
"""Pixels that an image has in each direction, roughly; a cell has one at least."""

Image = npt.NDArray[np.uint8]


class EvaluationSummaries:
    """Writes the results of one job's evaluations; the file is made with the first of them."""

    def __init__(self, context: Context) -> None:
        folder = folder_of(context)
        self._folder = None if folder is None else f"{folder}/{RUN}"
        self._writer: ScalarWriter | None = None

    def write(self, score: Score, details: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the metrics of a checkpoint, and images of their details."""
        if self._folder is None:
            return
        try:
            self._writer = self._writer or ScalarWriter(self._folder)
            self._writer.write(score.step, score.metrics)
            for name, image in images(details):
                self._writer.image(score.step, name, image)
            self._writer.flush()
        except (tf.errors.OpError, OSError) as error:
            log.event("summaries-off", path=self._folder, reason=one_line(str(error))[:300])
            self._folder = None


def images(details: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Image]]:
    """Yield name and image of each matrix, a row for each label, and of the ratios of its classes."""
    for name, found in details.items():
        if "matrix" in found:
            matrix = np.asarray(found["matrix"], np.float64)
            rows = matrix.sum(axis=1, keepdims=True)
            yield name, heat_map(np.divide(matrix, rows, out=np.zeros_like(matrix), where=rows > 0))
        if "classes" in found:
            ratios = [values for ratio, values in sorted(found["classes"].items()) if ratio != "weight"]
            yield f"{name}/classes", heat_map(np.asarray(ratios, np.float64).T)


def heat_map(values: npt.NDArray[np.float64]) -> Image:
    """Return numbers from 0 (white) to 1 (dark blue), [rows, columns], as an image, uint8 [height, width, 3]."""
    cell = max(1, SIDE // max(values.shape))
    white, dark = np.array([255.0, 255.0, 255.0]), np.array([8.0, 48.0, 107.0])
    shade = np.clip(values, 0, 1)[..., np.newaxis]
    pixels: Image = np.rint(white + (dark - white) * shade).astype(np.uint8)
    return pixels.repeat(cell, axis=0).repeat(cell, axis=1)
