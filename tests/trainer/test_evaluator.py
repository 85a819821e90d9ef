# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and the processes under test import it themselves
"""The evaluator during training: which checkpoints it evaluates, in which order, and its recovery from failures."""

import errno
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from trainer import exported
from trainer.numpy_reference import evaluation_set, metrics_by_numpy

from tfdist.contract import Phase, Role
from tfdist.contract_reports import CheckpointReport, ProgressReport
from tfdist_trainer.checkpoint import CheckpointRecord, CheckpointWriter, DataCursor, FinalRecord, StoredCheckpoint
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.evaluation_store import BestPolicy, StoredEvaluation
from tfdist_trainer.fence import Writer
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.writer_heartbeat import WriterHeartbeat

if TYPE_CHECKING:
    from trainer.replicas import Launch

    from tfdist_trainer.evaluator import Evaluator

pytestmark = pytest.mark.trainer

PATIENCE_SECONDS = 240.0
TIME = "2026-01-02T03:04:05.678Z"


class EvaluatedTraining:
    """An evaluator and a training that the test drives step by step; the accuracy of a checkpoint is step / 1000."""

    def __init__(self, directory: Path, job: str = "uid-1") -> None:
        self.directory = directory
        self.job = job
        self.evaluated: list[int] = []
        self.before: Callable[[int], object] = lambda _: None
        """Called with the step before a checkpoint is evaluated."""
        self.chief = CheckpointWriter(directory, keep=2, writer=self._writer())
        self.chief.claim()
        self.reporter = Reporter(ProgressReport(role=Role.EVALUATOR, index=0, attempt=0, phase=Phase.STARTING))

    def _writer(self) -> Writer:
        return Writer(
            job=self.job, name=self.job, namespace="ml", role=Role.WORKER, index=0, attempt=0, host="worker-0"
        )

    def save(self, *steps: int, time: str = TIME) -> CheckpointReport:
        for step in steps:
            last = self.chief.write(DataCursor(step=step), time, _values)
        return last

    def finish(self, step: int) -> None:
        self.chief.finish(self.save(step), total_steps=step)

    def start(self) -> "Evaluator":
        """Return an evaluator that has read the files."""
        from tfdist_trainer.evaluator import Evaluator

        return Evaluator(self.context({}), BestPolicy(), self._evaluate)

    def context(self, evaluation: dict[str, Any]) -> Any:
        settings = SimpleNamespace(directory=str(self.directory), restore="Latest")
        job = SimpleNamespace(uid=self.job, evaluation=evaluation, export=None, log_directory=None)
        member = SimpleNamespace(job=job)
        writer = SimpleNamespace(host="evaluator-0")
        return SimpleNamespace(checkpoint=settings, member=member, writer=writer, reporter=self.reporter)

    def _evaluate(self, path: StoredCheckpoint, record: CheckpointRecord) -> Any:
        step = record.cursor.step
        self.before(step)
        if not path.exists():
            raise StorageError(f"{path}: cannot be read")
        self.evaluated.append(step)
        result = StoredEvaluation(
            step=step,
            checkpoint=str(path),
            metrics={"accuracy": step / 1000},
            examples=7,
            time=TIME,
            job=self.job,
            saved_at=record.time,
        )
        return SimpleNamespace(result=result, details={})

    @property
    def reported(self) -> dict[str, int | None]:
        now = self.reporter.current
        named = {"latest": now.evaluation, "best": now.best_evaluation, "final": now.final_evaluation}
        return {name: report.step if report else None for name, report in named.items()}


def _values(prefix: str) -> None:
    Path(f"{prefix}.index").write_bytes(b"values")


@pytest.fixture
def training(tmp_path: Path) -> EvaluatedTraining:
    return EvaluatedTraining(tmp_path)


def test_each_checkpoint_is_evaluated_once_and_the_evaluator_ends_after_the_last(training: EvaluatedTraining) -> None:
    evaluator = training.start()
    assert not evaluator.evaluate_pending()
    training.save(10, 20)
    assert not evaluator.evaluate_pending()
    assert training.reported == {"latest": 20, "best": 20, "final": None}
    training.finish(30)
    assert evaluator.evaluate_pending()
    assert training.evaluated == [10, 20, 30]
    assert training.reported == {"latest": 30, "best": 30, "final": 30}
    assert training.reporter.current.phase is Phase.FINISHED
    assert not (training.directory / "evaluation" / "evaluating.json").exists()


def test_after_training_the_last_checkpoint_is_evaluated_first(training: EvaluatedTraining) -> None:
    training.save(10)
    training.finish(20)
    assert training.start().evaluate_pending()
    assert training.evaluated == [20, 10]


def test_a_restarted_evaluator_resumes(training: EvaluatedTraining) -> None:
    training.save(10, 20)

    def killed(step: int) -> None:
        if step == 20:
            raise KeyboardInterrupt

    training.before = killed
    with pytest.raises(KeyboardInterrupt):
        training.start().evaluate_pending()
    training.before = lambda _: None
    training.save(30)
    second = training.start()
    assert training.reported == {"latest": 10, "best": 10, "final": None}, "reported before any new evaluation"
    second.evaluate_pending()
    assert training.evaluated == [10, 20, 30]


def test_a_checkpoint_removed_while_it_is_read_is_skipped(training: EvaluatedTraining) -> None:
    training.save(10, 20)
    removed = training.directory / "checkpoint-000000010"
    training.before = lambda step: step == 10 and removed.rename(training.directory / "gone")
    evaluator = training.start()
    assert not evaluator.evaluate_pending()
    training.finish(30)
    assert evaluator.evaluate_pending()
    assert training.evaluated == [20, 30]


def test_a_damaged_checkpoint_is_skipped_unless_it_is_the_last(training: EvaluatedTraining) -> None:
    training.save(10, 20)
    (training.directory / "checkpoint-000000010" / "variables.index").write_bytes(b"other")
    evaluator = training.start()
    assert not evaluator.evaluate_pending()
    assert training.evaluated == [20]
    training.finish(30)
    (training.directory / "checkpoint-000000030" / "variables.index").write_bytes(b"other")
    with pytest.raises(StorageError, match=r"checkpoint-000000030: variables\.index is damaged"):
        evaluator.evaluate_pending()


def test_a_checkpoint_that_cannot_be_read_now_is_not_left_out(
    training: EvaluatedTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    training.save(10)
    evaluator = training.start()

    def fail(_: Path) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("tfdist_trainer.stored_checkpoint.file_record", fail)
    with pytest.raises(StorageError, match=r"cannot be read: Input/output error \(EIO\)"):
        evaluator.evaluate_pending()
    monkeypatch.undo()
    # when the evaluator is restarted
    training.start().evaluate_pending()
    assert training.evaluated == [10]


def test_a_repeated_step_is_evaluated_again(training: EvaluatedTraining) -> None:
    evaluator = training.start()
    training.save(10, 20)
    evaluator.evaluate_pending()
    training.save(20, time="2026-01-02T03:09:00.000Z")
    evaluator.evaluate_pending()
    assert training.evaluated == [10, 20, 20]


def test_checkpoints_of_another_job_are_ignored(tmp_path: Path) -> None:
    earlier = EvaluatedTraining(tmp_path, "uid-0")
    earlier.finish(90)
    earlier.start().evaluate_pending()
    training = EvaluatedTraining(tmp_path)
    assert not training.start().evaluate_pending()
    assert training.evaluated == []
    assert training.reported["latest"] is None


def test_the_last_checkpoint_of_a_finished_training_is_evaluated_also_if_another_job_wrote_it(tmp_path: Path) -> None:
    last = EvaluatedTraining(tmp_path, "uid-0").save(90)
    WriterHeartbeat(tmp_path, "uid-0").stop()
    training = EvaluatedTraining(tmp_path)
    training.chief.finish(last, total_steps=90)
    assert training.start().evaluate_pending()
    assert training.evaluated == [90]


def evaluates(directory: Path, **evaluation: Any) -> dict[str, Any]:
    """Return the part of TFDIST_JOB that makes a replica the evaluator."""
    checkpoint = {"directory": str(directory)}
    judged = {"mode": "Continuous", "metric": "accuracy", "goal": "Maximize"} | evaluation
    return {"task": "Evaluate", "role": "evaluator", "checkpoint": checkpoint, "evaluation": judged}


@pytest.mark.long
def test_with_two_workers_killed_twice_it_evaluates_all_and_stops_training_early(
    launch: "Launch", config: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    stopping = {"earlyStopping": {"patience": 3, "minDelta": 1.0}}  # so much better is none but the first
    endless = {"data": config["data"], "metrics": ["accuracy", "confusion_matrix"], "epochs": 1_000_000}
    saves = {"directory": str(tmp_path), "everySeconds": 1, "keep": 2}
    models = {"directory": str(tmp_path / "models"), "formats": exported.FORMATS, "which": ["Final", "Best"]}
    trained = launch(2, config=config | endless, job={"checkpoint": saves, "evaluation": stopping, "export": models})
    first = launch(1, config=config | endless, job=evaluates(tmp_path))
    seen = first.progress_when(lambda report: report.evaluation is not None).evaluation
    assert seen is not None
    first.processes[0].send_signal(signal.SIGKILL)
    kept = (tmp_path / "evaluation" / f"{seen.step}.json").read_bytes()
    second = launch(1, config=config | endless, job=evaluates(tmp_path))
    second.progress_when(lambda report: report.evaluation is not None and report.evaluation.step > seen.step)
    second.processes[0].send_signal(signal.SIGKILL)
    third = launch(1, config=config | endless, job=evaluates(tmp_path, **stopping) | {"export": models})

    assert trained.wait(PATIENCE_SECONDS) == [0, 0], trained.output() + trained.output(1)
    assert third.wait() == [0], third.output()
    assert "stopped-early" in trained.output()
    assert (tmp_path / "evaluation" / f"{seen.step}.json").read_bytes() == kept, "it was scored a second time"
    final = FinalRecord.model_validate_json((tmp_path / "final.json").read_bytes())
    last = trained.termination()
    assert last.step == final.step == final.total_steps
    words = third.termination()
    assert words.evaluation is not None
    assert words.best_evaluation is not None
    assert words.evaluation.step == final.step
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["step"] == words.best_evaluation.step
    check_scores(tmp_path, data, best)
    assert [(each.which, each.step) for each in last.exports] == [("Final", final.step)]
    assert [(each.which, each.step) for each in third.termination().exports] == [("Best", best["step"])]
    for folder, checkpoint in (("final", final.path), ("best", best["checkpoint"])):
        check_export(tmp_path / "models" / folder, config | endless, Path(checkpoint), data)


def check_export(folder: Path, config: dict[str, Any], checkpoint: Path, data: Path) -> None:
    import tensorflow as tf

    from tfdist_trainer.programs import choose

    images, labels = evaluation_set(data)
    program = choose("image_classification", config).create()
    columns = {"image": tf.constant(images.astype("uint8")), "label": tf.constant(labels)}
    exported.check(folder, program, checkpoint, columns)


def check_scores(directory: Path, data: Path, best: dict[str, Any]) -> None:
    """Check each existing checkpoint's result against NumPy, and the best of them."""
    images, labels = evaluation_set(data)
    there = {int(path.name.removeprefix("checkpoint-")): path for path in directory.glob("checkpoint-*")}
    assert best["step"] in there
    expected = {step: metrics_by_numpy(path, images, labels) for step, path in there.items()}
    for step in there:
        found = json.loads((directory / "evaluation" / f"{step}.json").read_text())
        assert found["examples"] == 101
        assert found["metrics"] == pytest.approx(expected[step], rel=1e-5)
        matrix = json.loads((directory / "evaluation" / f"{step}-details.json").read_text())["confusion_matrix"]
        assert sum(map(sum, matrix["matrix"])) == 101
    accuracies = {step: found["accuracy"] for step, found in expected.items()}
    assert accuracies[best["step"]] == max(accuracies.values())
    events = [path.read_bytes() for path in (directory / "tensorboard" / "evaluation").iterdir()]
    assert any(b"confusion_matrix" in content and b"PNG" in content for content in events)


def test_a_wrong_field_of_the_evaluation_is_reported_as_by_validation(training: EvaluatedTraining) -> None:
    from tfdist_trainer.evaluator import best_policy_of

    wrong = {"metric": 3, "earlyStopping": {"patience": "many"}}
    with pytest.raises(ConfigurationError) as caught:
        best_policy_of(training.context(wrong))
    assert str(caught.value) == (
        "evaluation.metric: Invalid value: 3: must be a string; quote numbers and booleans; "
        'evaluation.earlyStopping.patience: Invalid value: "many": must be an integer'
    )


def test_an_unknown_metric_is_reported_with_the_known_ones(
    training: EvaluatedTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfdist_trainer import evaluator

    monkeypatch.setattr(evaluator, "CheckpointEvaluator", lambda *_: SimpleNamespace(metrics=("loss", "accuracy")))
    with pytest.raises(ConfigurationError, match=r"evaluation.metric: .* computes loss, accuracy, not 'f2'"):
        evaluator.evaluate_continuously(training.context({"metric": "f2"}))
