"""What TensorBoard shows of a training, under `tensorBoard.logDirectory` or `<checkpoint.directory>/tensorboard`.

The chief writes the run `train`: loss, metrics, learning rate, gradient norm, examples per second. Every member
writes a run of its own name, `worker-1`: the time of a step and how long it waits for input, by which a slow
one is found. The points are those at which the loop looks up, every half second or so. That summaries cannot be
written is logged, and never ends a training.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist.contract_reports import ProgressReport
from tfdist_trainer import log
from tfdist_trainer.context import Context
from tfdist_trainer.errors import ConfigurationError, one_line
from tfdist_trainer.programs.config import Profile
from tfdist_trainer.step import Outcome, raw

DIRECTORY: Final = "tensorboard"
TRAIN_RUN: Final = "train"


class Summaries:
    """Writes one member's summaries; without a directory for them, none.

    Raises:
        ConfigurationError: a profile is wanted, and there is no directory for it.
    """

    def __init__(self, context: Context) -> None:
        self._member = context.member
        self._profile: Profile | None = context.config.profile
        self._profiling = False
        self._writers: dict[str, ScalarWriter] = {}
        self._folder = folder_of(context)
        if self._folder is None and self._profile is not None:
            raise ConfigurationError(
                "training.config.profile: needs tensorBoard.logDirectory or checkpoint.directory, where the trace is "
                "written"
            )
        self._own_run = f"{self._member.job.role}-{self._member.job.index}"

    def write(self, report: ProgressReport, recent: Mapping[str, Any], outcome: Outcome, learning_rate: Any) -> None:
        """Write the values of the steps since the last call; `recent` are the metrics of these alone."""
        step = report.step or 0
        own = {"step_time_millis": report.step_time_millis, "input_wait_millis": report.input_wait_millis}
        self._scalars(self._own_run, step, own)
        if self._member.is_chief:
            speed = {"examples_per_second": report.examples_per_second}
            gradient = {"gradient_norm": float(outcome.gradient_norm), "learning_rate": _number(learning_rate)}
            self._scalars(TRAIN_RUN, step, {**recent, **speed, **gradient})

    def limit(self, step: int, steps: int) -> int:
        """Return how many of `steps` to take after `step`, so that the profile begins and ends between chunks."""
        if self._profile is None:
            return steps
        first = self._profile.from_step - 1
        for border in (first, first + self._profile.steps):
            if step < border:
                return min(steps, border - step)
        return steps

    @contextmanager
    def profiled(self, step: int, steps: int) -> Iterator[None]:
        """Have the profiler watch what happens inside, when the steps after `step` are wanted."""
        profile = self._profile
        if profile is None or self._folder is None or not 0 <= step - profile.from_step + 1 < profile.steps:
            yield
            return
        if not self._profiling:
            tf.profiler.experimental.start(f"{self._folder}/{self._own_run}")
            self._profiling = True
        yield
        if step + steps >= profile.from_step - 1 + profile.steps:
            self._end_profile()

    def close(self) -> None:
        """Write what is still in memory."""
        self._end_profile()
        for writer in self._writers.values():
            writer.flush()

    def _end_profile(self) -> None:
        if self._profiling:
            self._profiling = False
            tf.profiler.experimental.stop()
            log.event("profiled", path=self._folder)

    def _scalars(self, run: str, step: int, values: Mapping[str, Any]) -> None:
        if self._folder is None:
            return
        try:
            if run not in self._writers:
                self._writers[run] = ScalarWriter(f"{self._folder}/{run}")
            self._writers[run].write(step, {k: float(v) for k, v in values.items() if isinstance(v, int | float)})
        except (tf.errors.OpError, OSError) as error:
            log.event("summaries-off", path=self._folder, reason=one_line(str(error))[:300])
            self._folder = None


def folder_of(context: Context) -> str | None:
    """Return where the runs of a job are, a path or URL; None when nobody has said where."""
    given = context.member.job.log_directory
    if given is not None:
        return given
    return str(Path(context.checkpoint.directory, DIRECTORY)) if context.checkpoint else None


class ScalarWriter:
    """Writes scalars of one run into a new event file.

    By TensorFlow's operations: `tf.summary.scalar` needs the package `tensorboard`, which no replica needs otherwise.
    """

    def __init__(self, folder: Path | str) -> None:
        with tf.device("CPU:0"):
            self._resource = tf.raw_ops.SummaryWriter(shared_name=str(folder), container="")
            tf.raw_ops.CreateSummaryFileWriter(
                writer=self._resource, logdir=str(folder), max_queue=100, flush_millis=10_000, filename_suffix=".tfdist"
            )

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Write `values` by name at `step`."""
        with tf.device("CPU:0"):
            for name, value in values.items():
                tf.raw_ops.WriteScalarSummary(
                    writer=self._resource, step=tf.constant(step, tf.int64), tag=name, value=tf.constant(value)
                )

    def image(self, step: int, name: str, pixels: npt.NDArray[np.uint8]) -> None:
        """Write an image, uint8 [height, width, 3], at `step`."""
        with tf.device("CPU:0"):
            tf.raw_ops.WriteImageSummary(
                writer=self._resource,
                step=tf.constant(step, tf.int64),
                tag=name,
                tensor=tf.constant(pixels[np.newaxis]),
                bad_color=tf.constant([255, 0, 0, 255], tf.uint8),
            )

    def flush(self) -> None:
        """Write what is still in memory."""
        tf.raw_ops.FlushSummaryWriter(writer=self._resource)


def _number(value: Any) -> float:
    """Return a variable of Keras 3 or `tf_keras`, also one that every replica has its own copy of, as a number."""
    return float(tf.convert_to_tensor(raw(value)).numpy())
