"""What evaluations leave beside the checkpoints, and what follows from it: which is best, and when it is enough.

    <checkpoint directory>/evaluation/470.json           the result of the checkpoint at step 470
                                     /470-details.json   what metrics have to say beyond their values
                                     /evaluating.json    the checkpoint that is being evaluated now
                          /best.json                     the best checkpoint so far
                          /stop.json                     training may end: no checkpoint has been better for long

Every file is either old or new, never half, so an evaluator that starts anew knows from them what has been scored.
The chief reads three of them and the evaluator writes all: the best checkpoint and the one being evaluated are kept
from its clean-up (`CheckpointWriter`). This module knows files, not TensorFlow.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import pydantic

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer import atomic, log

DIRECTORY: Final = "evaluation"
BUSY: Final = "evaluating.json"
BEST: Final = "best.json"
STOP: Final = "stop.json"

Model = TypeVar("Model", bound=ContractModel)


class Score(EvaluationReport):
    """The result of one checkpoint; with `job` and `saved_at` it is told from another one of the same step."""

    job: str = ""
    """UID of the job that evaluated."""
    saved_at: str = ""
    """When the checkpoint was written."""

    @property
    def report(self) -> EvaluationReport:
        """What is told of it."""
        return EvaluationReport.model_validate(self.model_dump(include=set(EvaluationReport.model_fields)))


class Best(Score):
    """`best.json`: the best checkpoint, and by what it is."""

    metric: str
    goal: str


class Named(ContractModel):
    """What is said of one checkpoint by its step, for one job."""

    step: int
    job: str = ""
    reason: str = ""


class EarlyStopping(ContractModel):
    """`evaluation.earlyStopping`, see `tfdist.api.training`."""

    patience: int
    min_delta: float = 0.0


class Judge(ContractModel):
    """What of `spec.evaluation` decides between scores."""

    metric: str = "accuracy"
    goal: str = "Maximize"
    early_stopping: EarlyStopping | None = None

    def value(self, score: Score) -> float | None:
        """Return how good a score is, more being better; None where its metric is not a number."""
        found = score.metrics.get(self.metric)
        return found if found is None or self.goal == "Maximize" else -found

    def ranked(self, scores: Iterable[Score]) -> list[Score]:
        """Return the scores that have a value, the best first; of equal ones the earlier step."""
        known = [(value, score) for score in scores if (value := self.value(score)) is not None]
        return [score for _, score in sorted(known, key=lambda item: (-item[0], item[1].step))]

    def enough(self, scores: Iterable[Score]) -> str:
        """Return why training should end, in words; "" while it should go on.

        A checkpoint whose metric is not a number is none that is better.
        """
        limit = self.early_stopping
        if limit is None:
            return ""
        best: float | None = None
        worse = 0
        for score in sorted(scores, key=lambda score: score.step):
            value = self.value(score)
            if value is not None and (best is None or value > best + limit.min_delta):
                best, worse = value, 0
            else:
                worse += 1
        if worse < limit.patience:
            return ""
        return f"{self.metric} of {worse} checkpoints in a row was no better than that of the best before them"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The files under one checkpoint directory, as one job's evaluator writes them.

    Raises (every method that writes):
        CheckpointUnwritableError: the directory cannot be written.
        StorageError: the storage failed.
    """

    directory: Path
    job: str
    tag: str
    """Keeps the temporary names of two writers apart."""

    def scores(self) -> dict[int, Score]:
        """Return this job's results by step; a damaged file is as if it were not there."""
        found: dict[int, Score] = {}
        for path in (self.directory / DIRECTORY).glob("*.json"):
            score = _read(path, Score) if path.stem.isdecimal() else None
            if score is not None and score.job == self.job:
                found[score.step] = score
        return found

    def begin(self, step: int) -> None:
        """Say that the checkpoint at `step` is being evaluated."""
        self._write(self.directory / DIRECTORY / BUSY, Named(step=step, job=self.job).to_json())

    def end(self) -> None:
        """Say that none is."""
        (self.directory / DIRECTORY / BUSY).unlink(missing_ok=True)

    def record(self, score: Score, details: Mapping[str, Mapping[str, Any]]) -> None:
        """Write a result, its details first: when the result is there, all of it is."""
        path = self.directory / DIRECTORY / f"{score.step}.json"
        if details:
            text = json.dumps({"step": score.step, "examples": score.examples} | dict(details))
            self._write(path.with_name(f"{score.step}-details.json"), text)
        self._write(path, score.to_json())

    def choose(self, judge: Judge, scores: Mapping[int, Score], exists: Callable[[Score], bool]) -> Score | None:
        """Write the best of the scores whose checkpoint `exists` into `best.json`, and return it."""
        best = next((score for score in judge.ranked(scores.values()) if exists(score)), None)
        if best is not None:
            named = Best(**best.model_dump(), metric=judge.metric, goal=judge.goal)
            if _read(self.directory / BEST, Best) != named:
                self._write(self.directory / BEST, named.to_json())
        return best

    def stop(self, step: int, reason: str) -> None:
        """Tell the chief that training may end, now that the checkpoint at `step` has been scored."""
        if not told_to_stop(self.directory, self.job, step):
            self._write(self.directory / STOP, Named(step=step, job=self.job, reason=reason).to_json())

    def _write(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(exist_ok=True)
            atomic.write_text(path, text, tag=self.tag)
        except OSError as error:
            raise atomic.storage_failure(error, path.parent) from error


def told_to_stop(directory: Path, job: str, step: int) -> str:
    """Return why the evaluator of `job` says that training may end; "" where it does not.

    `step` is where training stands: what was scored may be lost since, and then has to be done again.
    """
    found = _read(directory / STOP, Named)
    return found.reason if found is not None and found.job == job and found.step <= step else ""


def spared(directory: Path) -> frozenset[int] | None:
    """Return the steps of the checkpoints that no clean-up may remove: the best, and the one being evaluated.

    None when that cannot be read now.
    """
    paths = (directory / BEST, directory / DIRECTORY / BUSY)
    found = [_read(path, Named) for path in paths]
    if any(named is None and path.exists() for named, path in zip(found, paths, strict=True)):
        return None
    return frozenset(named.step for named in found if named is not None)


def _read(path: Path, model: type[Model]) -> Model | None:
    """Return what `path` holds; None where it is not there. A file that cannot be read is told of."""
    try:
        return model.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, pydantic.ValidationError) as error:
        log.event("file-damaged", path=path, reason=type(error).__name__)
        return None
