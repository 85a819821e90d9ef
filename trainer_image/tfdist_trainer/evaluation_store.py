"""Stores evaluation results in the checkpoint directory; selects the best checkpoint and decides on early stopping.

    <checkpoint directory>/evaluation/470.json           the result of the checkpoint at step 470
                                     /470-details.json   results of metrics that are not a number
                                     /evaluating.json    the checkpoint that is being evaluated
                          /best.json                     the best checkpoint so far
                          /stop.json                     early stopping: no checkpoint has improved for long enough

Every file is replaced atomically, so a restarted evaluator reads from them which checkpoints it has evaluated. The
evaluator writes them all, and the chief reads three: it keeps the best checkpoint and the one that is being evaluated
when it removes old ones (`CheckpointWriter`). This module does not import TensorFlow.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

import pydantic

from tfdist.contract_model import ContractModel
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer import log
from tfdist_trainer.errors import StorageError
from tfdist_trainer.storage.folder import DamagedError, StorageFolder
from tfdist_trainer.storage.locations import Location, open_folder

DIRECTORY: Final = "evaluation"
IN_PROGRESS: Final = "evaluating.json"
BEST: Final = "best.json"
STOP: Final = "stop.json"

Model = TypeVar("Model", bound=ContractModel)


class StoredEvaluation(EvaluationReport):
    """The result of one checkpoint. `job` and `saved_at` distinguish it from another checkpoint of the same step."""

    job: str = ""
    """UID of the job that evaluated."""
    saved_at: str = ""
    """When the checkpoint was written."""

    @property
    def report(self) -> EvaluationReport:
        """The part that is reported to the controller."""
        return EvaluationReport.model_validate(self.model_dump(include=set(EvaluationReport.model_fields)))


class Best(StoredEvaluation):
    """`best.json`: the best checkpoint, with the metric and goal it was selected by."""

    metric: str
    goal: str


class CheckpointReference(ContractModel):
    """A checkpoint of one job, by its step."""

    step: int
    job: str = ""
    reason: str = ""


class StopPolicy(ContractModel):
    """`evaluation.earlyStopping`, see `tfdist.api.training`."""

    patience: int
    min_delta: float = 0.0


class BestPolicy(ContractModel):
    """Selects the best checkpoint, and decides on early stopping (`spec.evaluation`)."""

    metric: str = "accuracy"
    goal: str = "Maximize"
    early_stopping: StopPolicy | None = None

    def value(self, result: StoredEvaluation) -> float | None:
        """Return the value to maximize; None if the metric is not finite."""
        metric = result.metrics.get(self.metric)
        return metric if metric is None or self.goal == "Maximize" else -metric

    def rank(self, results: Iterable[StoredEvaluation]) -> list[StoredEvaluation]:
        """Return the results that have a value, the best first; of equal values the earlier step first."""
        candidates = [(value, result) for result in results if (value := self.value(result)) is not None]
        return [result for _, result in sorted(candidates, key=lambda item: (-item[0], item[1].step))]

    def early_stop_reason(self, results: Iterable[StoredEvaluation]) -> str:
        """Return the reason to stop training early; "" if training should continue.

        A checkpoint whose metric is not finite counts as no improvement.
        """
        limit = self.early_stopping
        if limit is None:
            return ""
        best: float | None = None
        unimproved = 0
        for result in sorted(results, key=lambda result: result.step):
            value = self.value(result)
            if value is not None and (best is None or value > best + limit.min_delta):
                best, unimproved = value, 0
            else:
                unimproved += 1
        if unimproved < limit.patience:
            return ""
        return f"{self.metric} has not improved for {unimproved} checkpoints in a row"


class EvaluationStore:
    """The files of one job's evaluations under one checkpoint directory.

    Args:
        directory: a path or URL.
        job: UID of the job.
        tag: distinguishes the temporary files of two writers.

    Raises (every method):
        CheckpointUnwritableError: the directory cannot be written.
        StorageError: the storage failed: a result that cannot be read now is not absent.
    """

    def __init__(self, directory: Location, job: str, *, tag: str) -> None:
        self.folder = open_folder(directory, tag=tag)
        self._results = self.folder.folder(DIRECTORY)
        self._job = job

    def results(self) -> dict[int, StoredEvaluation]:
        """Return this job's results by step; damaged files are ignored."""
        results: dict[int, StoredEvaluation] = {}
        for name in self._results.names():
            path = PurePosixPath(name)
            if path.suffix != ".json" or not path.stem.isdecimal():
                continue
            result = _read(self._results, name, StoredEvaluation)
            if result is not None and result.job == self._job:
                results[result.step] = result
        return results

    def begin(self, step: int) -> None:
        """Record that the checkpoint at `step` is being evaluated, so that it is kept."""
        self._write(IN_PROGRESS, CheckpointReference(step=step, job=self._job).to_json())

    def end(self) -> None:
        """Record that no checkpoint is being evaluated."""
        self._results.remove(IN_PROGRESS)

    def record(self, result: StoredEvaluation, details: Mapping[str, Mapping[str, Any]]) -> None:
        """Write a result, its details first: if the result exists, so do the details."""
        # First: a result without its details would count as evaluated.
        if details:
            text = json.dumps({"step": result.step, "examples": result.examples} | dict(details))
            self._write(f"{result.step}-details.json", text)
        self._write(f"{result.step}.json", result.to_json())

    def update_best(
        self, policy: BestPolicy, results: Mapping[int, StoredEvaluation], exists: Callable[[StoredEvaluation], bool]
    ) -> StoredEvaluation | None:
        """Write the best of the results whose checkpoint `exists` to `best.json`, and return it."""
        best = next((result for result in policy.rank(results.values()) if exists(result)), None)
        if best is not None:
            stored = Best(**best.model_dump(), metric=policy.metric, goal=policy.goal)
            # In an object store each write has a price.
            if _read(self.folder, BEST, Best) != stored:
                self.folder.create()
                self.folder.write_text(BEST, stored.to_json())
        return best

    def request_stop(self, step: int, reason: str) -> None:
        """Request the end of training from the chief, after the evaluation of the checkpoint at `step`."""
        # The first request stays, with its reason.
        if not early_stop_reason(self.folder, self._job, step):
            text = CheckpointReference(step=step, job=self._job, reason=reason).to_json()
            self.folder.create()
            self.folder.write_text(STOP, text)

    def _write(self, name: str, text: str) -> None:
        self._results.create()
        self._results.write_text(name, text)


def early_stop_reason(directory: Location, job: str, step: int) -> str:
    """Return why the evaluator of `job` requests the end of training; "" if it does not.

    `step` is the current step of training. It may be before the evaluated step, if that checkpoint was lost since;
    training then continues to it. A failure of the storage is logged: it does not end training.
    """
    try:
        request = _read(open_folder(directory), STOP, CheckpointReference)
    except StorageError as error:
        log.event("file-unreadable", reason=str(error))
        return ""
    return request.reason if request is not None and request.job == job and request.step <= step else ""


def protected_steps(directory: Location) -> frozenset[int] | None:
    """Return the steps of the checkpoints that must be kept: the best, and the one being evaluated.

    None if the files are damaged or cannot be read now, which is logged: then none must be removed.
    """
    folder = open_folder(directory)
    files = ((folder, BEST), (folder.folder(DIRECTORY), IN_PROGRESS))
    try:
        references = [_parse(location, name, CheckpointReference) for location, name in files]
    except StorageError as error:
        log.event("file-unreadable", reason=str(error))
        return None
    return frozenset(reference.step for reference in references if reference is not None)


def _read(folder: StorageFolder, name: str, model: type[Model]) -> Model | None:
    """Return the content of a file; None if it is absent, or damaged, which is logged. Raises as `StorageFolder`."""
    try:
        return _parse(folder, name, model)
    except DamagedError as error:
        log.event("file-damaged", path=folder.place(name), reason=str(error))
        return None


def _parse(folder: StorageFolder, name: str, model: type[Model]) -> Model | None:
    """Return the content of a file; None if it does not exist.

    Raises:
        DamagedError: it is damaged.
        StorageError: it cannot be read.
    """
    text = folder.read_text(name)
    try:
        return None if text is None else model.model_validate_json(text)
    except pydantic.ValidationError as error:
        raise DamagedError(f"{folder.place(name)}: {error.errors()[0]['msg']}") from None
