"""TensorBoard summaries of evaluations: the run `evaluation`, with scalars, and images of matrices.

A failure to write is logged and never ends an evaluation.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.errors import one_line
from tfdist_trainer.evaluation_store import StoredEvaluation
from tfdist_trainer.summaries import new_writer, write_scalars

RUN: Final = "evaluation"

SIDE: Final = 320
"""Approximate width and height of an image in pixels; a cell has one pixel at least."""

Image = npt.NDArray[np.uint8]


class EvaluationSummaries:
    """Writes the results of one job's evaluations into its summaries in `folder`; the first one creates the file."""

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else f"{folder}/{RUN}"
        self._writer: tf.summary.SummaryWriter | None = None

    def write(self, result: StoredEvaluation, details: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the metrics of a checkpoint, and images of their details."""
        if self._folder is None:
            return
        try:
            if self._writer is None:
                self._writer = new_writer(self._folder)
            write_scalars(self._writer, result.step, result.metrics)
            with self._writer.as_default(result.step):
                for name, image in images(details):
                    tf.summary.image(name, image[np.newaxis])
            self._writer.flush()
        except (tf.errors.OpError, OSError, ImportError) as error:
            log.event("summaries-off", path=self._folder, reason=one_line(str(error))[:300])
            self._folder = None


def images(details: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Image]]:
    """Yield name and image of each matrix, a row for each label, and of the ratios of its classes."""
    for name, tables in details.items():
        if "matrix" in tables:
            matrix = np.asarray(tables["matrix"], np.float64)
            rows = matrix.sum(axis=1, keepdims=True)
            yield name, heat_map(np.divide(matrix, rows, out=np.zeros_like(matrix), where=rows > 0))
        if "classes" in tables:
            ratios = [values for ratio, values in sorted(tables["classes"].items()) if ratio != "weight"]
            yield f"{name}/classes", heat_map(np.asarray(ratios, np.float64).T)


def heat_map(values: npt.NDArray[np.float64]) -> Image:
    """Return numbers from 0 (white) to 1 (dark blue), [rows, columns], as an image, uint8 [height, width, 3]."""
    cell = max(1, SIDE // max(values.shape))
    white, dark = np.array([255.0, 255.0, 255.0]), np.array([8.0, 48.0, 107.0])
    shade = np.clip(values, 0, 1)[..., np.newaxis]
    pixels: Image = np.rint(white + (dark - white) * shade).astype(np.uint8)
    return pixels.repeat(cell, axis=0).repeat(cell, axis=1)
