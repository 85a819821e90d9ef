# ruff: noqa: PLC0415  TensorFlow takes seconds to import, and the processes under test import it themselves
"""The evaluator beside training: what it scores, in which order, and what it survives."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from trainer.by_numpy import evaluation_set, metrics_by_numpy

from tfdist.contract import Phase, Role
from tfdist.contract_reports import CheckpointReport, ProgressReport
from tfdist_trainer.checkpoint import CheckpointWriter, FinalRecord, Position, Record
from tfdist_trainer.errors import ConfigurationError, StorageError
from tfdist_trainer.fence import Writer
from tfdist_trainer.reporter import Reporter
from tfdist_trainer.scores import Judge, Score

if TYPE_CHECKING:
    from trainer.conftest import Launch

    from tfdist_trainer.evaluator import Evaluator

pytestmark = [pytest.mark.trainer, pytest.mark.usefixtures("two_devices")]

PATIENCE_SECONDS = 240.0
TIME = "2026-01-02T03:04:05.678Z"


class Beside:
    """An evaluator beside a training that is told step by step; a checkpoint's accuracy is its step in thousandths."""

    def __init__(self, directory: Path, job: str = "uid-1") -> None:
        self.directory = directory
        self.job = job
        self.scored: list[int] = []
        self.before: Callable[[int], object] = lambda _: None
        """Called with the step before a checkpoint is evaluated."""
        self.chief = CheckpointWriter(directory, keep=2, writer=self._writer())
        self.chief.claim()
        self.reporter = Reporter(ProgressReport(role=Role.EVALUATOR, index=0, attempt=0, phase=Phase.STARTING))

    def _writer(self) -> Writer:
        return Writer(job=self.job, role=Role.WORKER, index=0, attempt=0, host="worker-0")

    def save(self, *steps: int, time: str = TIME) -> CheckpointReport:
        for step in steps:
            last = self.chief.write(Position(step=step), time, _values)
        return last

    def finish(self, step: int) -> None:
        self.chief.finish(self.save(step), total_steps=step)

    def start(self) -> "Evaluator":
        """Return an evaluator that knows what the files say."""
        from tfdist_trainer.evaluator import Evaluator

        return Evaluator(self.context({}), Judge(), self._score)

    def context(self, evaluation: dict[str, Any]) -> Any:
        settings = SimpleNamespace(directory=str(self.directory), restore="Latest")
        job = SimpleNamespace(uid=self.job, evaluation=evaluation, log_directory=None)
        member = SimpleNamespace(job=job)
        writer = SimpleNamespace(host="evaluator-0")
        return SimpleNamespace(checkpoint=settings, member=member, writer=writer, reporter=self.reporter)

    def _score(self, path: Path, record: Record) -> Any:
        step = record.position.step
        self.before(step)
        if not path.exists():
            raise StorageError(f"{path}: cannot be read")
        self.scored.append(step)
        score = Score(
            step=step,
            checkpoint=str(path),
            metrics={"accuracy": step / 1000},
            examples=7,
            time=TIME,
            job=self.job,
            saved_at=record.time,
        )
        return SimpleNamespace(score=score, details={})

    @property
    def told(self) -> dict[str, int | None]:
        now = self.reporter.current
        named = {"latest": now.evaluation, "best": now.best_evaluation, "final": now.final_evaluation}
        return {name: report.step if report else None for name, report in named.items()}


def _values(prefix: str) -> None:
    Path(f"{prefix}.index").write_bytes(b"values")


@pytest.fixture
def beside(tmp_path: Path) -> Beside:
    return Beside(tmp_path)


def test_each_checkpoint_is_scored_once_and_the_evaluator_ends_after_the_last(beside: Beside) -> None:
    evaluator = beside.start()
    assert not evaluator.look()
    beside.save(10, 20)
    assert not evaluator.look()
    assert beside.told == {"latest": 20, "best": 20, "final": None}
    beside.finish(30)
    assert evaluator.look()
    assert beside.scored == [10, 20, 30]
    assert beside.told == {"latest": 30, "best": 30, "final": 30}
    assert beside.reporter.current.phase is Phase.FINISHED
    assert not (beside.directory / "evaluation" / "evaluating.json").exists()


def test_once_training_is_done_the_last_one_comes_first_and_the_others_still_follow(beside: Beside) -> None:
    beside.save(10)
    beside.finish(20)
    assert beside.start().look()
    assert beside.scored == [20, 10]


def test_an_evaluator_that_starts_anew_goes_on_where_the_last_one_was_killed(beside: Beside) -> None:
    beside.save(10, 20)

    def killed(step: int) -> None:
        if step == 20:
            raise KeyboardInterrupt

    beside.before = killed
    with pytest.raises(KeyboardInterrupt):
        beside.start().look()
    beside.before = lambda _: None
    beside.save(30)
    second = beside.start()
    assert beside.told == {"latest": 10, "best": 10, "final": None}, "told before anything is scored again"
    second.look()
    assert beside.scored == [10, 20, 30]


def test_a_checkpoint_that_vanishes_while_it_is_read_is_passed_over(beside: Beside) -> None:
    beside.save(10, 20)
    removed = beside.directory / "checkpoint-000000010"
    beside.before = lambda step: step == 10 and removed.rename(beside.directory / "gone")
    evaluator = beside.start()
    assert not evaluator.look()
    beside.finish(30)
    assert evaluator.look()
    assert beside.scored == [20, 30]


def test_a_damaged_checkpoint_is_passed_over_but_not_the_last_one(beside: Beside) -> None:
    beside.save(10, 20)
    (beside.directory / "checkpoint-000000010" / "variables.index").write_bytes(b"other")
    evaluator = beside.start()
    assert not evaluator.look()
    assert beside.scored == [20]
    beside.finish(30)
    (beside.directory / "checkpoint-000000030" / "variables.index").write_bytes(b"other")
    with pytest.raises(StorageError, match=r"checkpoint-000000030: variables\.index is damaged"):
        evaluator.look()


def test_a_step_that_training_has_done_again_is_scored_again(beside: Beside) -> None:
    evaluator = beside.start()
    beside.save(10, 20)
    evaluator.look()
    beside.save(20, time="2026-01-02T03:09:00.000Z")
    evaluator.look()
    assert beside.scored == [10, 20, 20]


def test_what_another_job_left_in_the_directory_is_no_business_of_this_one(tmp_path: Path) -> None:
    earlier = Beside(tmp_path, "uid-0")
    earlier.finish(90)
    earlier.start().look()
    beside = Beside(tmp_path)
    assert not beside.start().look()
    assert beside.scored == []
    assert beside.told["latest"] is None


def test_a_training_with_nothing_left_to_do_has_its_last_checkpoint_scored_whoever_wrote_it(tmp_path: Path) -> None:
    last = Beside(tmp_path, "uid-0").save(90)
    beside = Beside(tmp_path)
    beside.chief.finish(last, total_steps=90)
    assert beside.start().look()
    assert beside.scored == [90]


def evaluates(directory: Path, **evaluation: Any) -> dict[str, Any]:
    """Return the part of TFDIST_JOB that makes a replica the evaluator."""
    checkpoint = {"directory": str(directory)}
    judged = {"mode": "Continuous", "metric": "accuracy", "goal": "Maximize"} | evaluation
    return {"task": "Evaluate", "role": "evaluator", "checkpoint": checkpoint, "evaluation": judged}


def test_beside_two_workers_killed_twice_it_scores_all_and_ends_the_training_that_gets_no_better(
    launch: "Launch", config: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    stopping = {"earlyStopping": {"patience": 3, "minDelta": 1.0}}  # so much better is none but the first
    endless = {"data": config["data"], "metrics": ["accuracy", "confusion_matrix"], "epochs": 1_000_000}
    saves = {"directory": str(tmp_path), "everySeconds": 1, "keep": 2}
    trained = launch(2, config=config | endless, job={"checkpoint": saves, "evaluation": stopping})
    first = launch(1, config=config | endless, job=evaluates(tmp_path))
    seen = first.progress_when(lambda report: report.evaluation is not None).evaluation
    assert seen is not None
    first.processes[0].send_signal(signal.SIGKILL)
    kept = (tmp_path / "evaluation" / f"{seen.step}.json").read_bytes()
    second = launch(1, config=config | endless, job=evaluates(tmp_path))
    second.progress_when(lambda report: report.evaluation is not None and report.evaluation.step > seen.step)
    second.processes[0].send_signal(signal.SIGKILL)
    third = launch(1, config=config | endless, job=evaluates(tmp_path, **stopping))

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


def check_scores(directory: Path, data: Path, best: dict[str, Any]) -> None:
    """Check that each checkpoint that is there has been scored, as NumPy scores it, and the best of them named."""
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


def test_a_metric_that_the_program_does_not_compute_is_told_with_those_it_does(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfdist_trainer import evaluator

    monkeypatch.setattr(evaluator, "Scorer", lambda *_: SimpleNamespace(metrics=("loss", "accuracy")))
    with pytest.raises(ConfigurationError, match=r"evaluation.metric: .* computes loss, accuracy, and not 'f2'"):
        evaluator.follow(beside.context({"metric": "f2"}))
