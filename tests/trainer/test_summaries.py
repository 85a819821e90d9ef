"""The event files are what TensorBoard reads: tags, step numbers and values, also after a resume."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from tfdist_trainer.summaries import new_writer, write_scalars

pytestmark = pytest.mark.trainer


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the points of each scalar as TensorBoard shows them."""
    events = EventAccumulator(str(folder), size_guidance={"tensors": 0})
    events.Reload()
    return {
        tag: [(event.step, float(tf.make_ndarray(event.tensor_proto))) for event in events.Tensors(tag)]
        for tag in events.Tags()["tensors"]
    }


def test_a_resumed_training_continues_its_step_numbers(tmp_path: Path) -> None:
    first = new_writer(str(tmp_path))
    write_scalars(first, 10, {"loss": 2.0, "accuracy": 0.25})
    first.flush()
    assert read(tmp_path) == {"loss": [(10, 2.0)], "accuracy": [(10, 0.25)]}
    resumed = new_writer(str(tmp_path))
    write_scalars(resumed, 20, {"loss": 1.0})
    write_scalars(resumed, 30, {"loss": np.nan})
    resumed.flush()
    assert len(list(tmp_path.iterdir())) == 2, "each start writes a file of its own"
    steps = {step for step, _ in read(tmp_path)["loss"]}  # files of one second are read in no certain order
    assert steps == {10, 20, 30}


def test_a_folder_that_cannot_be_written_is_an_error_of_tensorflow() -> None:
    with pytest.raises(tf.errors.OpError):
        new_writer("/proc/absent")
