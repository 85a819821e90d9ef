"""An epoch of examples that are read by index goes on when the number of workers has changed since its checkpoint."""

import itertools
import json
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recording_program import EXAMPLES, JOURNAL, REPORTS, SIGNAL

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader, DataCursor
from tfdist_trainer.data import tfrecord
from tfdist_trainer.data.pipeline import ExampleSource
from tfdist_trainer.input_pipeline import InputPipeline
from tfdist_trainer.metrics.additive import WeightedMean
from tfdist_trainer.metrics.collection import MetricCollection
from tfdist_trainer.training_input import resume_cursor

if TYPE_CHECKING:
    from trainer.replicas import Launch, Replicas

pytestmark = pytest.mark.trainer

SECONDS: Final = 240.0
EPOCHS: Final = 2
BATCH: Final = 3


def mean(name: str) -> WeightedMean:
    return WeightedMean(name, lambda labels, _predictions: labels)


SUMS: Final = MetricCollection([mean("loss")])


def pipeline(replicas: int, batch: int, *counts: int, by_index: bool = True) -> InputPipeline:
    gang: Any = SimpleNamespace(replicas=replicas, replicas_per_member=1, rank=0)
    examples = ExampleSource(sum(counts), batches=lambda _: None, decode=tuple, by_index=by_index)
    return InputPipeline(gang, examples, batch, (*counts, 0) if by_index else counts)


def saved(cursor: DataCursor, by: InputPipeline) -> DataCursor:
    return cursor.model_copy(update={"sharding_signature": by.sharding_signature, "metrics": SUMS.sizes})


def resumed(cursor: DataCursor, now: InputPipeline, sums: MetricCollection = SUMS) -> DataCursor:
    return resume_cursor(cursor, now.sharding_signature, sums, by_index=now.examples.by_index)


IN_EPOCH: Final = DataCursor(step=14, epoch=1, step_in_epoch=4, examples=64, metric_sums=(24.0, 7.0, 24.0))
"""After four steps of six examples in the second epoch of 40 examples."""


def test_another_gang_takes_the_steps_that_the_examples_left_need() -> None:
    cursor = resumed(saved(IN_EPOCH, pipeline(2, 3, 40)), pipeline(3, 3, 40))
    assert cursor.metric_sums == IN_EPOCH.metric_sums
    assert pipeline(3, 3, 40).steps_left(cursor) == 2, "16 examples in steps of 9"
    assert pipeline(3, 3, 40).total_steps(cursor, epochs=3) == 14 + 2 + 5
    assert pipeline(3, 3, 40).percent(cursor, epochs=3) == pytest.approx(100 * 64 / 120)


def test_new_metrics_do_not_change_which_examples_are_left() -> None:
    more = MetricCollection([mean("loss"), mean("other")])
    cursor = resumed(saved(IN_EPOCH, pipeline(2, 3, 40)), pipeline(1, 3, 40), more)
    assert cursor.metric_sums == (24.0, 7.0, 24.0, 0.0, 0.0)
    assert pipeline(1, 3, 40).steps_left(cursor) == 6


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(pipeline(2, 3, 40), pipeline(3, 3, 41), id="other examples"),
        pytest.param(pipeline(2, 3, 20, 20, by_index=False), pipeline(2, 3, 40), id="read by file before"),
        pytest.param(pipeline(2, 3, 40), pipeline(2, 3, 20, 20, by_index=False), id="read by file now"),
        pytest.param(
            pipeline(2, 3, 20, 20, by_index=False), pipeline(1, 3, 40, by_index=False), id="by file, another gang"
        ),
    ],
)
def test_the_epoch_starts_again_if_a_number_of_examples_does_not_name_them(
    before: InputPipeline, now: InputPipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    cursor = resumed(saved(IN_EPOCH, before), now)
    assert (cursor.step, cursor.step_in_epoch, cursor.examples_in_epoch) == (14, 0, 0)
    assert "epoch-restarted epoch=2" in capsys.readouterr().out


def test_a_checkpoint_without_metrics_starts_the_epoch_again() -> None:
    old = IN_EPOCH.model_copy(update={"metric_sums": (), "sharding_signature": (3, 2, 40, 0)})
    assert resumed(old, pipeline(3, 3, 40)).step_in_epoch == 0


def test_by_file_an_epoch_has_the_steps_of_the_largest_part() -> None:
    by_file = pipeline(2, 3, 10, 30, by_index=False)
    assert (by_file.steps, by_file.steps_left(IN_EPOCH), by_file.total_steps(IN_EPOCH, epochs=3)) == (10, 6, 30)
    assert by_file.percent(IN_EPOCH, epochs=3) is None


def advanced(cursor: DataCursor, by: InputPipeline) -> DataCursor:
    """Return the cursor after a step, as the training loop has it."""
    valid = min(by.batch_size * by.gang.replicas, by.examples.count - cursor.examples_in_epoch)
    assert valid > 0
    sums = (cursor.metric_sums[0] + valid, *cursor.metric_sums[1:])
    counts = {"step": cursor.step + 1, "step_in_epoch": cursor.step_in_epoch + 1, "examples": cursor.examples + valid}
    after = cursor.model_copy(update=counts | {"metric_sums": sums})
    if by.steps_left(after):
        return after
    assert after.examples_in_epoch == by.examples.count, "each example once"
    start = {"epoch": cursor.epoch + 1, "step_in_epoch": 0, "metric_sums": tuple(SUMS.zeros())}
    return after.model_copy(update=start)


@settings(max_examples=200, deadline=None)
@given(
    count=st.integers(1, 60),
    epochs=st.integers(1, 3),
    gangs=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 7), st.integers(0, 9)), max_size=12),
)
def test_any_sequence_of_gangs_and_interruptions_uses_each_example_once_an_epoch(
    count: int, epochs: int, gangs: list[tuple[int, int, int]]
) -> None:
    cursor = DataCursor(step=0, metric_sums=tuple(SUMS.zeros()))
    percents, last = [0.0], (1, 1, epochs * count)
    for replicas, batch, steps in [*gangs, last]:
        now = pipeline(replicas, batch, count)
        cursor = resumed(cursor, now)
        total = now.total_steps(cursor, epochs)
        for _ in range(min(steps, total - cursor.step)):
            cursor = advanced(cursor, now)
            assert now.total_steps(cursor, epochs) == total, "it does not change within a gang"
            percents.append(now.percent(cursor, epochs) or 0.0)
        cursor = saved(cursor, now)
    assert cursor.examples == epochs * count
    assert (cursor.epoch, cursor.step, percents[-1]) == (epochs, total, 100.0)
    assert percents == sorted(percents)


class Job:
    """A job on 25 examples in TFRecord files, whose attempts have different numbers of workers."""

    def __init__(self, launch: "Launch", folder: Path) -> None:
        self._launch, self._folder, self._attempts = launch, folder, 0
        for number, part in enumerate(np.split(np.arange(EXAMPLES, dtype=np.float32), [17])):
            tfrecord.write(str(folder / f"train-{number}.tfrecord"), {"x": part, "number": part})
        self.examples: list[list[int]] = []
        """Of each step that counts, of all workers."""
        self.reports: list[dict[str, Any]] = []
        """Of the chiefs."""
        self.log = ""

    @property
    def cursor(self) -> DataCursor:
        """That of the newest checkpoint."""
        newest = CheckpointReader(self._folder / "ckpt").newest()
        return newest.cursor if newest else DataCursor(step=0)

    def run(self, workers: int, signals: dict[int, str] | None = None) -> "Replicas":
        """Run an attempt to its end, in which workers send themselves `signals`."""
        data: dict[str, Any] = {"data": {"train": f"{self._folder}/train-*"}, "numeric": ["x"], "label": "number"}
        # The rate is so low that the loss of an epoch does not depend on the steps before.
        data |= {"normalize": "None", "hiddenUnits": [2], "learningRate": 1e-12}
        config = data | {"epochs": EPOCHS, "batchSizePerReplica": BATCH}
        training = {"program": "support.recording_program:FromFiles", "config": config}
        checkpoint = {"directory": str(self._folder / "ckpt"), "everySteps": 1}
        files = [self._folder / f"{self._attempts}-{rank}" for rank in range(workers)]
        environs = {
            rank: {JOURNAL: f"{file}.journal", REPORTS: f"{file}.reports", SIGNAL: (signals or {}).get(rank, "")}
            for rank, file in enumerate(files)
        }
        begin = self.cursor.step
        job = {"training": training, "checkpoint": checkpoint, "attempt": self._attempts}
        replicas = self._launch(workers, config={}, job=job, environs=environs)
        replicas.wait(SECONDS)
        self._attempts += 1
        self.log += replicas.output()
        self.reports += _lines(Path(f"{files[0]}.reports"))
        # A step after the last checkpoint is done again.
        steps = zip(*(_lines(Path(f"{file}.journal")) for file in files), strict=False)
        self.examples = self.examples[:begin] + [[*itertools.chain(*parts)] for parts in steps]
        return replicas


def _lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def epochs_of(log: str) -> list[dict[str, float]]:
    """Return the metrics of each epoch in a log."""
    return [
        {name: float(value) for name, value in re.findall(r"(loss|number)=(\S+)", line)}
        for line in re.findall(r" epoch epoch=.*", log)
    ]


@pytest.mark.long
def test_two_then_three_then_one_worker_use_each_example_of_an_epoch_once(launch: "Launch", tmp_path: Path) -> None:
    # given two workers that are preempted in the first epoch
    job = Job(launch, tmp_path)
    preempted = job.run(2, {1: f"2:{signal.SIGTERM}"})
    assert preempted.wait() == [ExitCode.PREEMPTED] * 2, preempted.outputs
    assert (job.cursor.step, job.cursor.examples_in_epoch) == (2, 12)
    # when three continue, of which one is killed in its second step
    killed = job.run(3, {1: f"2:{signal.SIGKILL}"})
    assert killed.wait() == [ExitCode.PEER_LOST, -signal.SIGKILL, ExitCode.PEER_LOST], killed.outputs
    assert (job.cursor.step, job.cursor.examples_in_epoch) == (3, 21)
    # and one ends the training
    ended = job.run(1)
    assert ended.wait() == [0], ended.outputs

    # then
    assert list(map(len, job.examples)) == [6, 6, 9, 3, 1, *[3] * 8, 1]
    first, second = itertools.chain(*job.examples[:5]), itertools.chain(*job.examples[5:])
    assert sorted(first) == sorted(second) == list(range(EXAMPLES))
    assert (job.cursor.epoch, job.cursor.step, job.cursor.examples) == (EPOCHS, 14, EPOCHS * EXAMPLES)
    assert "epoch-restarted" not in job.log
    assert "epoch-continued epoch=1 examples=12 of=25" in job.log

    # The metrics of an epoch are those of all its examples.
    (tmp_path / "other").mkdir()
    undisturbed = Job(launch, tmp_path / "other")
    assert undisturbed.run(1).wait() == [0], undisturbed.log
    for epoch, expected in zip(epochs_of(job.log), epochs_of(undisturbed.log), strict=True):
        assert epoch == pytest.approx(expected, rel=1e-5)
        assert expected["number"] == pytest.approx((EXAMPLES - 1) / 2)

    # Progress does not go backwards, although the number of all steps becomes 10, 7 and 14.
    with_step = [report for report in job.reports if "step" in report]
    for name in ("step", "epoch", "examples", "percent"):
        values = [report[name] for report in with_step]
        assert values == sorted(values), name
    assert [total for total, _ in itertools.groupby(report["totalSteps"] for report in with_step)] == [10, 7, 14]
    assert {with_step[-1]["percent"], ended.termination().percent} == {100.0}
    assert preempted.termination().percent == pytest.approx(24)
