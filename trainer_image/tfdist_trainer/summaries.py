"""TensorBoard summaries of training, in `tensorBoard.logDirectory` or `<checkpoint.directory>/tensorboard`.

The chief writes the run `train`: loss, metrics, learning rate, gradient norm, examples per second. Every member
writes a run named after itself, such as `worker-1`: step time, the time that it computes, and the times that it waits
for its input and in the exchange, which identify a slow member. The chief writes the slow one by name too. There is a
point for each execution of steps, about every half second. Evaluations are in the run `evaluation`: scalars, and images
of matrices. A failure to write is logged, and ends neither training nor an evaluation.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist.contract import CheckpointSettings, replica_name
from tfdist.contract_reports import ProgressReport, SlowReplica
from tfdist.programs.config import Profile
from tfdist_trainer import log
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.evaluation_store import StoredEvaluation
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.storage.object_urls import is_url

DIRECTORY: Final = "tensorboard"
TRAIN_RUN: Final = "train"

# `tf.summary` imports it at its first call, which takes 0.1 s; here the fork server imports it once for all replicas.
with suppress(ImportError):
    importlib.import_module("tensorboard.plugins.scalar.summary_v2")
    importlib.import_module("tensorboard.plugins.text.summary_v2")


class Summaries:
    """Writes one member's summaries; without a directory for them, none.

    Raises:
        ConfigurationError: a profile is configured, and no directory for it.
    """

    def __init__(self, member: GangMember, folder: str | None, profile: Profile | None) -> None:
        self._member = member
        self._profile = profile
        self._profiling = False
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        self._folder = folder
        if self._folder is None and self._profile is not None:
            raise ConfigurationError(
                "training.config.profile: needs tensorBoard.logDirectory or checkpoint.directory, where the trace is "
                "written"
            )
        self._slow = ""
        """Text about the slow replica that was written last; "" for none."""
        self._own_run = replica_name(self._member.job.role, self._member.job.index)

    def write(self, report: ProgressReport, recent: Mapping[str, Any], gradient_norm: Any, learning_rate: Any) -> None:
        """Write the values of the steps since the last call; `recent` are the metrics of these alone."""
        self.write_times(report)
        if self._member.is_chief:
            step = report.step or 0
            speed = {"examples_per_second": report.examples_per_second}
            gradient = {"gradient_norm": float(gradient_norm), "learning_rate": _number(learning_rate)}
            self._scalars(TRAIN_RUN, step, {**recent, **speed, **gradient})

    def write_times(self, report: ProgressReport) -> None:
        """Write the times of this member, and as the chief the slow replica, which it logs."""
        step = report.step or 0
        self._scalars(self._own_run, step, own_times(report))
        if self._member.is_chief:
            self._slow_replica(step, report.slow_replica)

    def limit(self, step: int, steps: int) -> int:
        """Return how many of `steps` to take after `step`, so that the profile begins and ends between executions."""
        if self._profile is None:
            return steps
        first = self._profile.from_step - 1
        for boundary in (first, first + self._profile.steps):
            if step < boundary:
                return min(steps, boundary - step)
        return steps

    @contextmanager
    def profile_steps(self, step: int, steps: int) -> Iterator[None]:
        """Profile the body if the steps after `step` are among those to be profiled."""
        profile = self._profile
        if profile is None or self._folder is None or not 0 <= step - profile.from_step + 1 < profile.steps:
            yield
            return
        # A profile may span several executions.
        if not self._profiling:
            tf.profiler.experimental.start(f"{self._folder}/{self._own_run}")
            self._profiling = True
        yield
        if step + steps >= profile.from_step - 1 + profile.steps:
            self._end_profile()

    def close(self) -> None:
        """Flush what is still in memory."""
        self._end_profile()
        for writer in self._writers.values():
            writer.flush()

    def _slow_replica(self, step: int, slow: SlowReplica | None) -> None:
        """Log the slow replica and write it as text, if it is another one than before."""
        name = replica_name(slow.role, slow.index) if slow else ""
        if name == self._slow:
            return
        self._slow = name
        times = {"ownMillis": round(slow.own_millis, 3), "othersMillis": round(slow.others_millis, 3)} if slow else {}
        log.event("slow-replica", step=step, name=name or "none", **times)
        text = f"{name}: {times['ownMillis']} ms, others {times['othersMillis']} ms" if slow else "none"
        self._write(TRAIN_RUN, step, lambda: tf.summary.text("slow_replica", text))

    def _end_profile(self) -> None:
        if self._profiling:
            self._profiling = False
            tf.profiler.experimental.stop()
            log.event("profiled", path=self._folder)

    def _scalars(self, run: str, step: int, values: Mapping[str, Any]) -> None:
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        self._write(run, step, lambda: _write_all(numbers))

    def _write(self, run: str, step: int, write: Callable[[], object]) -> None:
        """Call `write` with the writer of `run` as the default, if there is a folder."""
        if self._folder is None:
            return
        try:
            if run not in self._writers:
                self._writers[run] = new_writer(f"{self._folder}/{run}")
            with self._writers[run].as_default(step):
                write()
        except (tf.errors.OpError, OSError, ImportError) as error:
            log.event("summaries-off", path=self._folder, reason=one_line(str(error))[:300])
            # Once: the same error would be logged at each execution.
            self._folder = None


def own_times(report: ProgressReport) -> dict[str, float | None]:
    """Return the times of a replica in a step, in milliseconds by name; None for those that are not known."""
    step, input_wait, exchange = report.step_time_millis, report.input_wait_millis, report.exchange_wait_millis
    is_measured = step is not None and exchange is not None
    return {
        "step_time_millis": step,
        "input_wait_millis": input_wait,
        "exchange_wait_millis": exchange,
        "compute_millis": max(0.0, (step or 0.0) - (exchange or 0.0) - (input_wait or 0.0)) if is_measured else None,
    }


def folder_of(log_directory: str | None, checkpoint: CheckpointSettings | None) -> str | None:
    """Return where the runs of a job are, a path or URL; None if none is configured, or only an object store.

    TensorFlow has no file system for `s3://`, and one for `gs://` with other credentials than checkpoints have.
    """
    if log_directory is not None:
        return log_directory
    if checkpoint is None or is_url(checkpoint.directory):
        return None
    return str(Path(checkpoint.directory, DIRECTORY))


def new_writer(folder: str) -> tf.summary.SummaryWriter:
    """Return a writer of a new event file in `folder`, which writes what is in memory every ten seconds.

    Raises:
        tf.errors.OpError: the file cannot be created.
    """
    return tf.summary.create_file_writer(folder, max_queue=100, flush_millis=10_000, filename_suffix=".tfdist")


def write_scalars(writer: tf.summary.SummaryWriter, step: int, values: Mapping[str, float]) -> None:
    """Write `values` by name at `step`."""
    with writer.as_default(step):
        _write_all(values)


def _write_all(values: Mapping[str, float]) -> None:
    for name, value in values.items():
        tf.summary.scalar(name, value)


def _number(value: Any) -> float:
    """Return a variable of Keras 3 or `tf_keras`, also one that every replica has its own copy of, as a number."""
    return float(tf.convert_to_tensor(raw(value)).numpy())


EVALUATION_RUN: Final = "evaluation"

SIDE: Final = 320
"""Approximate width and height of an image in pixels; a cell has one pixel at least."""

Image = npt.NDArray[np.uint8]


class EvaluationSummaries:
    """Writes the results of one job's evaluations into its summaries in `folder`; the first one creates the file."""

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else f"{folder}/{EVALUATION_RUN}"
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
