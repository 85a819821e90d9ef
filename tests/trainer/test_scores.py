"""What follows from scores, and the files by which an evaluator and the chief know of it; without TensorFlow."""

import json
from pathlib import Path

import pytest

from tfdist.contract import Role
from tfdist_trainer.checkpoint import CheckpointWriter, Position
from tfdist_trainer.fence import Writer
from tfdist_trainer.scores import Judge, Ledger, Score, spared, told_to_stop

TIME = "2026-01-02T03:04:05.678Z"
NAN = float("nan")


def score(step: int, accuracy: float, job: str = "uid-1") -> Score:
    metrics = {"accuracy": accuracy, "loss": 1.0}
    return Score(step=step, checkpoint=f"/c/{step}", metrics=metrics, examples=10, time=TIME, job=job, saved_at=TIME)


def scores(*accuracies: float) -> dict[int, Score]:
    return {10 * number: score(10 * number, value) for number, value in enumerate(accuracies, 1)}


def ledger(directory: Path, job: str = "uid-1") -> Ledger:
    return Ledger(directory, job, tag="evaluator-0")


def always(_: Score) -> bool:
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
def test_the_best_is_that_of_the_metric_and_goal(
    goal: str, accuracies: tuple[float, ...], best: int | None, tmp_path: Path
) -> None:
    found = ledger(tmp_path).choose(Judge(goal=goal), scores(*accuracies), always)
    assert (found.step if found else None) == best
    if best is None:
        assert not (tmp_path / "best.json").exists()
    else:
        stored = json.loads((tmp_path / "best.json").read_text())
        assert (stored["step"], stored["checkpoint"]) == (best, f"/c/{best}")
        assert (stored["metric"], stored["goal"]) == ("accuracy", goal)


def test_a_best_that_is_gone_is_not_the_best(tmp_path: Path) -> None:
    found = ledger(tmp_path).choose(Judge(), scores(0.1, 0.3, 0.2), lambda known: known.step != 20)
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
def test_training_may_end_when_so_many_checkpoints_were_no_better(
    accuracies: tuple[float, ...], delta: float, *, stops: bool
) -> None:
    judge = Judge.model_validate({"earlyStopping": {"patience": 2, "minDelta": delta}})
    assert bool(judge.enough(scores(*accuracies).values())) is stops
    assert not Judge().enough(scores(*accuracies).values()), "nobody asked to stop early"


def test_what_was_scored_is_known_from_the_files_of_this_job_alone(tmp_path: Path) -> None:
    mine = ledger(tmp_path)
    mine.record(score(10, 0.1), {"confusion_matrix": {"matrix": [[1.0]]}})
    mine.record(score(20, NAN), {})
    ledger(tmp_path, "uid-0").record(score(30, 0.9, "uid-0"), {})
    (tmp_path / "evaluation" / "40.json").write_text('{"step": 40, "che')
    mine.begin(50)
    known = ledger(tmp_path).scores()
    assert {step: found.metrics for step, found in known.items()} == {
        10: {"accuracy": 0.1, "loss": 1.0},
        20: {"loss": 1.0},
    }
    assert json.loads((tmp_path / "evaluation" / "10-details.json").read_text())["confusion_matrix"]


def test_the_chief_hears_of_its_own_jobs_evaluator_only(tmp_path: Path) -> None:
    assert told_to_stop(tmp_path, "uid-1", 30) == ""
    ledger(tmp_path).stop(20, "it is enough")
    assert told_to_stop(tmp_path, "uid-1", 30) == "it is enough"
    assert told_to_stop(tmp_path, "uid-2", 30) == ""


def test_a_training_that_has_lost_what_was_scored_does_it_again_before_it_ends(tmp_path: Path) -> None:
    ledger(tmp_path).stop(20, "it is enough")
    assert told_to_stop(tmp_path, "uid-1", 19) == ""
    assert told_to_stop(tmp_path, "uid-1", 20) == "it is enough"


def chief(directory: Path, keep: int) -> CheckpointWriter:
    writer = Writer(job="uid-1", role=Role.WORKER, index=0, attempt=0, host="worker-0")
    made = CheckpointWriter(directory, keep=keep, writer=writer)
    made.claim()
    return made


def steps(directory: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("checkpoint-")) for path in directory.glob("checkpoint-*"))


def save(prefix: str) -> None:
    Path(f"{prefix}.index").write_bytes(b"index")


def test_clean_up_spares_the_best_and_the_one_that_is_being_evaluated(tmp_path: Path) -> None:
    writer, evaluator = chief(tmp_path, keep=2), ledger(tmp_path)
    for step in (10, 20):
        writer.write(Position(step=step), TIME, save)
    evaluator.choose(Judge(), {10: score(10, 0.9)}, always)
    evaluator.begin(20)
    for step in (30, 40, 50):
        writer.write(Position(step=step), TIME, save)
    assert steps(tmp_path) == [10, 20, 40, 50]
    evaluator.choose(Judge(), {10: score(10, 0.9), 40: score(40, 0.95)}, always)
    evaluator.end()
    for step in (60, 70):
        writer.write(Position(step=step), TIME, save)
    assert steps(tmp_path) == [40, 60, 70], "what was best is like any other"
    assert not list(tmp_path.glob(".tmp-*"))


def test_nothing_is_removed_while_it_cannot_be_known_what_is_best(tmp_path: Path) -> None:
    writer = chief(tmp_path, keep=1)
    (tmp_path / "best.json").write_text("{")
    for step in (10, 20):
        writer.write(Position(step=step), TIME, save)
    assert spared(tmp_path) is None
    assert steps(tmp_path) == [10, 20]
