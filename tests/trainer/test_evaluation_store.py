"""The best checkpoint and early stopping from results, and the files between evaluator and chief; no TensorFlow."""

import json
from pathlib import Path

import pytest

from tfdist.contract import Role
from tfdist_trainer.checkpoint import CheckpointWriter, DataCursor
from tfdist_trainer.evaluation_store import (
    BestPolicy,
    EvaluationStore,
    StoredEvaluation,
    early_stop_reason,
    protected_steps,
)
from tfdist_trainer.fence import Writer

TIME = "2026-01-02T03:04:05.678Z"
NAN = float("nan")


def result(step: int, accuracy: float, job: str = "uid-1") -> StoredEvaluation:
    metrics = {"accuracy": accuracy, "loss": 1.0}
    return StoredEvaluation(
        step=step, checkpoint=f"/c/{step}", metrics=metrics, examples=10, time=TIME, job=job, saved_at=TIME
    )


def results(*accuracies: float) -> dict[int, StoredEvaluation]:
    return {10 * number: result(10 * number, value) for number, value in enumerate(accuracies, 1)}


def store(directory: Path, job: str = "uid-1") -> EvaluationStore:
    return EvaluationStore(directory, job, tag="evaluator-0")


def always(_: StoredEvaluation) -> bool:
    return True


@pytest.mark.parametrize(
    ("goal", "accuracies", "best"),
    [
        ("Maximize", (0.1, 0.3, 0.2), 20),
        ("Minimize", (0.3, 0.1, 0.2), 20),
        ("Maximize", (0.2, 0.3, 0.3), 20),
        ("Maximize", (NAN, 0.3, NAN), 20),
        ("Maximize", (NAN, NAN), None),
        ("Maximize", (), None),
    ],
    ids=["more is better", "less is better", "ties keep the earlier", "not a number", "never a number", "none yet"],
)
def test_the_best_checkpoint_follows_metric_and_goal(
    goal: str, accuracies: tuple[float, ...], best: int | None, tmp_path: Path
) -> None:
    found = store(tmp_path).update_best(BestPolicy(goal=goal), results(*accuracies), always)
    assert (found.step if found else None) == best
    if best is None:
        assert not (tmp_path / "best.json").exists()
    else:
        stored = json.loads((tmp_path / "best.json").read_text())
        assert (stored["step"], stored["checkpoint"]) == (best, f"/c/{best}")
        assert (stored["metric"], stored["goal"]) == ("accuracy", goal)


def test_a_removed_checkpoint_is_not_the_best(tmp_path: Path) -> None:
    found = store(tmp_path).update_best(BestPolicy(), results(0.1, 0.3, 0.2), lambda known: known.step != 20)
    assert found is not None
    assert found.step == 30


@pytest.mark.parametrize(
    ("accuracies", "delta", "stops"),
    [
        ((0.5, 0.4, 0.6, 0.6), 0.0, False),
        ((0.5, 0.4, 0.5), 0.0, True),
        ((0.5, 0.51, 0.52), 0.1, True),
        ((0.5, 0.51, 0.62), 0.1, False),
        ((NAN, NAN), 0.0, True),
        ((0.5, NAN, 0.6), 0.0, False),
        ((0.5, 0.6), 0.0, False),
    ],
    ids=["better again", "a tie is no better", "too little", "enough in two", "never a number", "once none", "early"],
)
def test_training_stops_early_after_patience_checkpoints_without_improvement(
    accuracies: tuple[float, ...], delta: float, *, stops: bool
) -> None:
    policy = BestPolicy.model_validate({"earlyStopping": {"patience": 2, "minDelta": delta}})
    assert bool(policy.early_stop_reason(results(*accuracies).values())) is stops
    assert not BestPolicy().early_stop_reason(results(*accuracies).values()), "no earlyStopping"


def test_results_are_read_from_the_files_of_this_job_only(tmp_path: Path) -> None:
    mine = store(tmp_path)
    mine.record(result(10, 0.1), {"confusion_matrix": {"matrix": [[1.0]]}})
    mine.record(result(20, NAN), {})
    store(tmp_path, "uid-0").record(result(30, 0.9, "uid-0"), {})
    (tmp_path / "evaluation" / "40.json").write_text('{"step": 40, "che')
    mine.begin(50)
    known = store(tmp_path).results()
    assert {step: found.metrics for step, found in known.items()} == {
        10: {"accuracy": 0.1, "loss": 1.0},
        20: {"loss": 1.0},
    }
    assert json.loads((tmp_path / "evaluation" / "10-details.json").read_text())["confusion_matrix"]


def test_the_chief_reads_requests_of_its_own_jobs_evaluator_only(tmp_path: Path) -> None:
    assert early_stop_reason(tmp_path, "uid-1", 30) == ""
    store(tmp_path).request_stop(20, "no improvement")
    assert early_stop_reason(tmp_path, "uid-1", 30) == "no improvement"
    assert early_stop_reason(tmp_path, "uid-2", 30) == ""


def test_training_before_the_evaluated_step_continues_to_it(tmp_path: Path) -> None:
    store(tmp_path).request_stop(20, "no improvement")
    assert early_stop_reason(tmp_path, "uid-1", 19) == ""
    assert early_stop_reason(tmp_path, "uid-1", 20) == "no improvement"


def chief(directory: Path, keep: int) -> CheckpointWriter:
    writer = Writer(job="uid-1", name="fashion", namespace="ml", role=Role.WORKER, index=0, attempt=0, host="worker-0")
    made = CheckpointWriter(directory, keep=keep, writer=writer)
    made.claim()
    return made


def steps(directory: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("checkpoint-")) for path in directory.glob("checkpoint-*"))


def save(prefix: str) -> None:
    Path(f"{prefix}.index").write_bytes(b"index")


def test_clean_up_keeps_the_best_and_the_checkpoint_that_is_being_evaluated(tmp_path: Path) -> None:
    writer, evaluator = chief(tmp_path, keep=2), store(tmp_path)
    for step in (10, 20):
        writer.write(DataCursor(step=step), TIME, save)
    evaluator.update_best(BestPolicy(), {10: result(10, 0.9)}, always)
    evaluator.begin(20)
    for step in (30, 40, 50):
        writer.write(DataCursor(step=step), TIME, save)
    assert steps(tmp_path) == [10, 20, 40, 50]
    evaluator.update_best(BestPolicy(), {10: result(10, 0.9), 40: result(40, 0.95)}, always)
    evaluator.end()
    for step in (60, 70):
        writer.write(DataCursor(step=step), TIME, save)
    assert steps(tmp_path) == [40, 60, 70], "a former best is removed like any other"
    assert not list(tmp_path.glob(".tmp-*"))


def test_nothing_is_removed_while_the_best_is_unknown(tmp_path: Path) -> None:
    writer = chief(tmp_path, keep=1)
    (tmp_path / "best.json").write_text("{")
    for step in (10, 20):
        writer.write(DataCursor(step=step), TIME, save)
    assert protected_steps(tmp_path) is None
    assert steps(tmp_path) == [10, 20]
