"""Asynchronous gangs of real processes: closures stay in flight, and the numbers of steps and examples are exact."""

import re
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.closures_program import UNFINISHED
from support.slow_steps import PACES, set_pace
from trainer.conftest import CLASSES, SHAPE, examples
from trainer.replicas import TIMEOUT_SECONDS

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader, DataCursor, FinalRecord, read_record

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

ROLES = {"chief": 1, "worker": 2, "ps": 1}
LINE = {"batchSizePerReplica": 2}
"""For `Line`: its 13 examples are 7 steps."""
BATCH = 8
SMALL, LARGE = 20, 200
STEPS = -(-(SMALL + LARGE) // BATCH)
"""Of an epoch; the last step has the rest of the examples."""


@pytest.fixture
def uneven(data: Path, tmp_path: Path) -> dict[str, Any]:  # noqa: ARG001  TensorFlow is configured before it starts
    """A configuration for a file of 20 records and one of 200."""
    from tfdist_trainer.data import tfrecord  # noqa: PLC0415  TensorFlow takes seconds to import

    for number, count in enumerate((SMALL, LARGE)):
        images, labels = examples(count, seed=number)
        tfrecord.write(str(tmp_path / f"train-{number}.tfrecord"), {"image": images, "label": labels})
    return {
        "data": {"train": f"{tmp_path}/train-*.tfrecord"},
        "imageShape": list(SHAPE),
        "classes": CLASSES,
        "model": "mlp",
        "batchSizePerReplica": BATCH,
    }


def job(directory: Path, attempt: int = 0, **checkpoint: Any) -> dict[str, Any]:
    settings = {"directory": str(directory)} | checkpoint
    return {"strategy": "ParameterServer", "checkpoint": settings, "attempt": attempt}


def final_cursor(directory: Path) -> DataCursor:
    final = FinalRecord.model_validate_json((directory / "final.json").read_bytes())
    return read_record(Path(final.path)).cursor


def counts_of(cursor: DataCursor) -> tuple[int, int]:
    return cursor.step, cursor.examples


def examples_at(step: int) -> int:
    """Return the number of examples after `step` steps, all of them full except the last of an epoch."""
    epochs, in_epoch = divmod(step, STEPS)
    return epochs * (SMALL + LARGE) + in_epoch * BATCH


def test_the_number_of_examples_is_exact_if_the_files_of_the_workers_differ_in_size(
    launch_roles: "Launch", uneven: dict[str, Any], tmp_path: Path
) -> None:
    gang = launch_roles(ROLES, config=uneven | {"epochs": 3}, job=job(tmp_path / "ckpt"))
    assert set(gang.wait()) == {0}, gang.outputs
    assert counts_of(final_cursor(tmp_path / "ckpt")) == (3 * STEPS, 3 * (SMALL + LARGE))
    event = re.search(r"input-uneven examples=(\S+) message=(.*)", gang.output())
    assert event, gang.output()
    assert event[1] == f"{SMALL},{LARGE}"
    assert "a part of their records" in event[2]


@pytest.mark.long
def test_each_worker_trains_on_its_own_files_if_the_pattern_has_its_index(
    launch_roles: "Launch", uneven: dict[str, Any], tmp_path: Path
) -> None:
    config = uneven | {"data": {"train": f"{tmp_path}/train-{{worker}}.tfrecord"}, "epochs": 3}
    gang = launch_roles(ROLES, config=config, job=job(tmp_path / "ckpt"))
    assert set(gang.wait()) == {0}, gang.outputs
    assert counts_of(final_cursor(tmp_path / "ckpt")) == (3 * STEPS, 3 * (SMALL + LARGE))
    event = re.search(r"input-uneven examples=(\S+) message=(.*)", gang.output())
    assert event, gang.output()
    assert event[1] == f"{SMALL},{LARGE}"
    assert "used more often" in event[2]


@pytest.mark.long
def test_the_number_of_examples_is_exact_if_the_program_divides_them_unevenly(
    launch_roles: "Launch", tmp_path: Path
) -> None:
    given = job(tmp_path / "ckpt", everySteps=1000)
    given["training"] = {"program": "support.closures_program:Uneven", "config": LINE | {"epochs": 20}}
    gang = launch_roles(ROLES, config={}, job=given)
    assert set(gang.wait()) == {0}, gang.outputs
    assert counts_of(final_cursor(tmp_path / "ckpt")) == (20 * 7, 20 * 13)
    assert re.search(r"input-uneven examples=3,10 message=.*used more often", gang.output()), gang.output()


def test_more_closures_than_workers_are_scheduled(launch_roles: "Launch", tmp_path: Path) -> None:
    given = job(tmp_path / "ckpt", everySteps=1000)
    given["training"] = {"program": "support.closures_program:Line", "config": LINE | {"epochs": 20}}
    gang = launch_roles(ROLES, config={}, job=given)
    assert set(gang.wait()) == {0}, gang.outputs
    cursor = final_cursor(tmp_path / "ckpt")
    assert counts_of(cursor) == (20 * 7, 20 * 13)
    most = int(re.findall(rf"{UNFINISHED} (\d+)", gang.output())[-1])
    assert most >= 2 * ROLES["worker"], gang.output()


def test_steps_and_examples_are_exact_after_a_save_and_a_resume(
    launch_roles: "Launch", uneven: dict[str, Any], tmp_path: Path
) -> None:
    every = 3 * STEPS + 5  # within an epoch
    directory = tmp_path / "ckpt"
    first = launch_roles(ROLES, config=uneven | {"epochs": 1_000_000}, job=job(directory, everySteps=every))
    first.progress_when(lambda report: report.last_checkpoint is not None)
    first.processes[0].send_signal(signal.SIGTERM)
    assert first.processes[0].wait(60) == ExitCode.PREEMPTED, first.outputs
    first.stop()
    for path in directory.glob("checkpoint-*"):
        saved = read_record(path).cursor
        assert saved.examples == examples_at(saved.step), path
        assert saved.step_in_epoch == saved.step % STEPS
    newest = CheckpointReader(directory).newest()
    assert newest is not None

    epochs = newest.cursor.step // STEPS + 2
    second = launch_roles(ROLES, config=uneven | {"epochs": epochs}, job=job(directory, 1, everySteps=every))
    assert set(second.wait()) == {0}, second.outputs
    assert f"restored step={newest.cursor.step} " in second.output()
    assert counts_of(final_cursor(directory)) == (epochs * STEPS, epochs * (SMALL + LARGE))


def test_batches_are_full_over_the_end_of_a_pass_and_have_every_example(data: Path) -> None:  # noqa: ARG001  as above
    import tensorflow as tf  # noqa: PLC0415  TensorFlow takes seconds to import

    from tfdist_trainer.data.batches import indexed_batches  # noqa: PLC0415
    from tfdist_trainer.data.pipeline import ExampleSource  # noqa: PLC0415
    from tfdist_trainer.worker_input import full_batches  # noqa: PLC0415

    def decode(numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.stack([numbers, numbers], axis=1), numbers

    source = ExampleSource(count=5, batches=lambda order: indexed_batches(5, order), decode=decode)
    batches = full_batches(source, batch_size=3, seed=1, epoch=0, skip_steps=0)
    found = list(batches.take(5).as_numpy_iterator())
    assert all(batch.valid_mask.all() and batch.weights.all() for batch in found)
    labels = np.concatenate([batch.labels for batch in found])
    for number in range(3):
        assert sorted(labels[5 * number : 5 * number + 5]) == list(range(5)), "a pass has each example once"


def test_the_examples_of_all_workers_are_counted_without_being_read_again(data: Path) -> None:  # noqa: ARG001
    from tfdist_trainer.data.pipeline import ExampleSource  # noqa: PLC0415
    from tfdist_trainer.worker_input import all_workers_source  # noqa: PLC0415

    def unread(*_: Any) -> Any:
        raise AssertionError("it is read")

    skipped = (None, "a.csv: line 4", "b.csv: line 1")
    parts = [ExampleSource(n, unread, unread, skipped=n, first_skipped=skipped[n]) for n in range(3)]
    every = all_workers_source(parts)
    assert (every.count, every.skipped, every.first_skipped) == (3, 3, "a.csv: line 4")


@pytest.mark.parametrize(
    ("records", "message"),
    [([], "the files hold no example"), ([0], "1 examples are too few for 2 workers")],
    ids=["none", "one"],
)
def test_examples_that_are_too_few_end_the_job_with_their_number(
    launch_roles: "Launch", tmp_path: Path, records: list[int], message: str
) -> None:
    (tmp_path / "few.csv").write_text("\n".join(["x,label", *(f"1,{label}" for label in records), ""]))
    config = {"data": {"train": f"{tmp_path}/few.csv"}, "numeric": ["x"], "classes": 2, "normalize": "None"}
    training = {"program": "tabular", "config": config}
    gang = launch_roles(ROLES, config={}, job={"strategy": "ParameterServer", "training": training})
    assert gang.processes[0].wait(TIMEOUT_SECONDS) == ExitCode.DATA_MISSING, gang.output()
    assert gang.termination().message == f"training.config.data.train: {message}"


@pytest.mark.long  # steps of half a second
def test_four_workers_take_more_than_three_times_as_many_steps_as_one(launch_roles: "Launch", tmp_path: Path) -> None:
    """Given steps that wait half a second for their input, with closures in flight; then workers hardly wait."""
    one, four = (steps_per_second(launch_roles, tmp_path / str(workers), workers) for workers in (1, 4))
    print(f"steps a second: {one:.2f} of one worker, {four:.2f} of four; {four / one:.2f} times as many")
    assert four / one >= 3.5


def steps_per_second(launch_roles: "Launch", folder: Path, workers: int) -> float:
    """Return the steps a second of so many workers, of which a step takes 0.5 s."""
    training = {"program": "support.slowed_program:Paced", "config": LINE | {"epochs": 1_000_000, "shuffleBuffer": 1}}
    description = {"strategy": "ParameterServer", "training": training, "logDirectory": str(folder), "checkpoint": None}
    roles = {"chief": 1, "worker": workers, "ps": 1}
    folder.mkdir()
    for number in range(workers):
        set_pace(folder, number, 0.25)
    environs = {0: {PACES: str(folder)}}  # of the chief, which makes the data sets
    gang = launch_roles(roles, config={}, job=description, environs=environs)
    first = gang.progress_when(lambda found: (found.step or 0) >= 6 * workers).step or 0
    began = time.monotonic()
    last = gang.progress_when(lambda found: (found.step or 0) >= first + 20 * workers).step or 0
    speed = (last - first) / (time.monotonic() - began)
    gang.stop()
    return speed
