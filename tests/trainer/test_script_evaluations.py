"""Evaluations of a script: the newest and the best are reported, and the checkpoint of the best is named."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.contract import CheckpointSettings
from tfdist.contract_reports import CheckpointReport
from tfdist_trainer.checkpoint import RECORD, CheckpointWriter, DataCursor
from tfdist_trainer.environment import read_member
from tfdist_trainer.evaluation_store import BestPolicy, EvaluationStore, protected_steps
from tfdist_trainer.fence import Writer
from tfdist_trainer.keras.progress import Progress
from tfdist_trainer.keras.reporting import validation_examples
from tfdist_trainer.keras.script_checkpoints import ScriptCheckpoints, WriteObserver
from tfdist_trainer.keras.training_state import FitSnapshot
from tfdist_trainer.script import current_report
from tfdist_trainer.script_evaluations import LOWEST_LOSS, ScriptEvaluations, best_policy

pytestmark = pytest.mark.trainer

ROWS = np.zeros([10, 2], "float32")


class Job:
    """A job whose checkpoints are in `folder`; `report` has what its last attempt has reported."""

    def __init__(self, folder: Path, keep: int = 1) -> None:
        self.folder = folder
        self.report: dict[str, Any] = {}
        owner = Writer(job="1", name="fashion", namespace="ml", attempt=0, role="worker", index=0, host="here")
        self._writer = CheckpointWriter(folder, keep=keep, writer=owner)
        self._writer.claim()

    def attempt(self, step: int = 0) -> ScriptEvaluations:
        """Return the evaluations of an attempt that resumes after `step` steps."""
        evaluations = ScriptEvaluations(LOWEST_LOSS, "1", self._update)
        evaluations.store_in(EvaluationStore(self.folder, "1", tag="here"), step)
        return evaluations

    def save(self, step: int) -> CheckpointReport:
        return self._writer.write(DataCursor(step=step), f"2030-01-01T00:00:{step:02d}Z", lambda _: None)

    def reported(self) -> dict[str, tuple[int, str]]:
        known = {name: each for name, each in self.report.items() if each}
        return {name: (each.step, Path(each.checkpoint or "").name) for name, each in known.items()}

    def _update(self, **changes: Any) -> None:
        self.report |= changes


def evaluate(job: Job, evaluations: ScriptEvaluations, step: int, loss: float, *, saved: bool = True) -> None:
    evaluations.add(step, {"loss": loss}, 9)
    if saved and evaluations.newest:
        evaluations.record(evaluations.newest, checkpoint := job.save(step))
        evaluations.keep(evaluations.newest, checkpoint)
        evaluations.report()


def test_the_newest_and_the_best_are_reported_with_their_checkpoints(tmp_path: Path) -> None:
    # given
    job = Job(tmp_path)
    evaluations = job.attempt()
    # when
    evaluate(job, evaluations, 4, 0.2)
    evaluate(job, evaluations, 8, 0.3)
    # then
    name = "checkpoint-{:09d}"
    assert job.reported() == {"evaluation": (8, name.format(8)), "best_evaluation": (4, name.format(4))}


def test_the_best_checkpoint_is_not_removed_as_an_old_one(tmp_path: Path) -> None:
    # given
    job = Job(tmp_path, keep=1)
    evaluations = job.attempt()
    # when
    for step, loss in ((1, 0.5), (2, 0.1), (3, 0.2), (4, 0.3)):
        evaluate(job, evaluations, step, loss)
    # then
    assert protected_steps(tmp_path) == frozenset({2})
    assert sorted(path.name[-1] for path in tmp_path.glob("checkpoint-*")) == ["2", "4"]


def test_another_attempt_continues_with_the_results_of_the_last_one(tmp_path: Path) -> None:
    # given
    job = Job(tmp_path, keep=5)
    first = job.attempt()
    evaluate(job, first, 4, 0.2)
    evaluate(job, first, 8, 0.3)
    # when it repeats the steps from 4 on
    second = job.attempt(8)
    assert job.reported()["best_evaluation"][0] == 4
    second.add(8, {"loss": 0.4}, 9)
    # then
    assert not second.newest_is_best
    assert job.report["evaluation"].metrics == {"loss": 0.4}, "that of the steps that count"
    assert job.reported()["best_evaluation"][0] == 4


def test_a_result_without_a_checkpoint_is_reported_but_not_named_as_best_on_disk(tmp_path: Path) -> None:
    # given
    job = Job(tmp_path)
    evaluations = job.attempt()
    # when
    evaluate(job, evaluations, 4, 0.2)
    evaluate(job, evaluations, 8, 0.1, saved=False)
    # then
    assert job.reported()["best_evaluation"] == (8, "")
    assert protected_steps(tmp_path) == frozenset({4})


def test_a_checkpoint_that_is_written_again_stays_the_best(tmp_path: Path) -> None:
    # given the checkpoint at the end of `fit`, which the end of the script writes again
    job = Job(tmp_path)
    evaluations = job.attempt()
    evaluate(job, evaluations, 4, 0.2)
    again = job.save(4).model_copy(update={"time": "2030-01-02T00:00:00Z"})
    # when
    assert evaluations.newest is not None
    evaluations.record(evaluations.newest, again)
    evaluations.keep(evaluations.newest, again)
    # then
    assert evaluations.newest.saved_at == again.time
    assert evaluations.newest_is_best


def test_the_best_checkpoint_is_kept_if_the_process_is_killed_before_it_names_it(tmp_path: Path) -> None:
    # given an attempt that is killed between the checkpoint of its best result and `best.json`
    job = Job(tmp_path, keep=1)
    killed = job.attempt()
    evaluate(job, killed, 4, 0.2)
    killed.add(8, {"loss": 0.1}, 9)
    assert killed.newest is not None
    killed.record(killed.newest, job.save(8))
    # when the next one continues from that checkpoint and writes more
    evaluations = job.attempt(8)
    evaluate(job, evaluations, 12, 0.3)
    job.save(16)
    # then
    assert job.reported()["best_evaluation"] == (8, "checkpoint-000000008")
    assert (tmp_path / "checkpoint-000000008").exists()


def test_a_result_is_stored_before_a_process_can_resume_from_its_checkpoint(tmp_path: Path) -> None:
    # given
    job: dict[str, Any] = {"name": "job", "namespace": "default", "uid": "1", "strategy": "MultiWorkerMirrored"}
    job |= {"role": "worker", "index": 0, "replicas": {"worker": 1}, "attempt": 0}
    member = read_member({"TFDIST_JOB": json.dumps(job)})
    checkpoints = ScriptCheckpoints(CheckpointSettings(directory=str(tmp_path)), member)
    calls: list[tuple[str, bool]] = []

    def note(name: str, checkpoint: CheckpointReport) -> None:
        calls.append((name, (Path(str(checkpoint.path)) / RECORD).exists()))

    observer = WriteObserver(functools.partial(note, "before"), functools.partial(note, "after"))
    # when
    checkpoints.save(DataCursor(step=7), FitSnapshot({}, {}), 0.0, observer)
    checkpoints.wait()
    # then
    assert calls == [("before", False), ("after", True)]


def test_a_result_whose_checkpoint_was_removed_is_not_the_best(tmp_path: Path) -> None:
    # given a best checkpoint that was deleted
    job = Job(tmp_path, keep=5)
    first = job.attempt()
    evaluate(job, first, 4, 0.2)
    evaluate(job, first, 8, 0.1)
    evaluate(job, first, 12, 0.3)
    shutil.rmtree(tmp_path / "checkpoint-000000008")
    # when
    evaluations = job.attempt(12)
    # then it cannot be exported, and the next best one can
    assert evaluations.best is not None
    assert (evaluations.best.step, job.reported()["best_evaluation"][0]) == (4, 4)
    assert job.reported()["evaluation"][0] == 12


def test_results_after_the_checkpoint_that_training_resumes_from_are_computed_again(tmp_path: Path) -> None:
    # given an attempt that is killed after it has recorded a result, and before the checkpoint is complete
    job = Job(tmp_path, keep=5)
    killed = job.attempt()
    evaluate(job, killed, 4, 0.2)
    killed.add(8, {"loss": 0.1}, 9)
    assert killed.newest is not None
    killed.record(killed.newest, CheckpointReport(step=8, path="checkpoint-000000008", time="2030-01-01T00:00:08Z"))
    # when
    job.attempt(4)
    # then
    assert job.reported() == dict.fromkeys(["evaluation", "best_evaluation"], (4, "checkpoint-000000004"))


@pytest.mark.parametrize(
    ("evaluation", "best"),
    [
        pytest.param(None, 2, id="the lowest loss"),
        pytest.param({"mode": "None", "metric": "accuracy"}, 1, id="the highest accuracy"),
        pytest.param({"metric": "loss", "goal": "Maximize"}, 1, id="the highest loss"),
        pytest.param({"metric": ["x"]}, 2, id="a policy of a newer version"),
    ],
)
def test_the_policy_of_the_job_selects_the_best(evaluation: dict[str, Any] | None, best: int) -> None:
    # given
    report: dict[str, Any] = {}
    evaluations = ScriptEvaluations(best_policy(evaluation), "", report.update)
    # when
    evaluations.add(1, {"loss": 0.4, "accuracy": 0.9}, None)
    evaluations.add(2, {"loss": 0.3, "accuracy": 0.8}, None)
    # then
    assert report["best_evaluation"].step == best


def test_a_metric_that_the_script_does_not_compute_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    # given
    report: dict[str, Any] = {}
    evaluations = ScriptEvaluations(BestPolicy(metric="val_accuracy"), "", report.update)
    # when
    for step in (1, 2):
        evaluations.add(step, {"loss": 0.4, "accuracy": 0.9}, None)
    # then
    assert report["best_evaluation"] is None
    assert report["evaluation"].metrics == {"loss": 0.4, "accuracy": 0.9}
    assert "".join(capsys.readouterr()).count("the validation computes accuracy, loss, not 'val_accuracy'") == 1


def test_the_metrics_of_the_validation_data_are_reported_as_an_evaluation() -> None:
    # given
    progress: Any = Progress()
    progress.validation_examples = 30
    progress.set_params({"epochs": 2, "steps": 3})
    progress.set_model(keras.Sequential([keras.layers.Dense(1)]))
    progress.model.compile("sgd")
    progress.on_train_begin()
    progress.on_epoch_begin(0)
    # when
    for batch in range(3):
        progress.on_train_batch_begin(batch)
        progress.on_train_batch_end(batch, {"loss": 2.0})
    progress.on_epoch_end(0, {"loss": 2.0, "val_loss": 1.5, "val_f1": np.float32(0.5), "val_per_class": np.ones(3)})
    # then
    evaluation = current_report().evaluation
    assert evaluation is not None
    assert (evaluation.step, evaluation.examples, evaluation.metrics) == (3, 30, {"loss": 1.5, "f1": 0.5})
    assert evaluation.checkpoint is None


def rows() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((ROWS, ROWS))


@pytest.mark.parametrize(
    ("given", "examples"),
    [
        pytest.param(lambda: {"validation_data": (ROWS, ROWS)}, 10, id="arrays"),
        pytest.param(lambda: {"validation_data": ({"a": ROWS, "b": ROWS}, ROWS, ROWS)}, 10, id="several arrays"),
        pytest.param(lambda: {"validation_data": (ROWS, ROWS), "validation_steps": 2, "batch_size": 3}, 6, id="steps"),
        pytest.param(
            lambda: {"validation_data": (ROWS, ROWS), "validation_steps": 9, "validation_batch_size": 3}, 10, id="few"
        ),
        pytest.param(lambda: {"x": ROWS, "validation_split": 0.25}, 3, id="a part of the training data"),
        pytest.param(lambda: {"validation_data": rows().batch(4)}, 10, id="a data set"),
        pytest.param(lambda: {"validation_data": rows().batch(4, drop_remainder=True).cache()}, 8, id="whole batches"),
        pytest.param(lambda: {"validation_data": rows().batch(4).map(lambda *xs: xs).prefetch(1)}, 10, id="mapped"),
        pytest.param(lambda: {"validation_data": rows().batch(4), "validation_steps": 2}, 8, id="some batches"),
        pytest.param(lambda: {"validation_data": rows().repeat().batch(4), "validation_steps": 2}, None, id="endless"),
        pytest.param(lambda: {"validation_data": rows().filter(lambda *_: True).batch(4)}, None, id="chosen"),
        pytest.param(lambda: {"validation_data": rows().batch(4).take(1)}, None, id="taken"),
        pytest.param(lambda: {"validation_data": iter([(ROWS, ROWS)])}, None, id="a generator"),
        pytest.param(lambda: {"x": ROWS}, None, id="nothing"),
    ],
)
def test_the_number_of_validation_examples(given: Callable[[], dict[str, Any]], examples: int | None) -> None:
    assert validation_examples(**given()) == examples
