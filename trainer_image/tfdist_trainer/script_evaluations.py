"""The evaluations of a script, which `fit` computes from its validation data: the newest and the best are reported.

With `checkpoint`, the chief keeps the best model: it stores results as the evaluator does (`evaluation_store`).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pydantic

from tfdist.contract_reports import CheckpointReport
from tfdist_trainer import log
from tfdist_trainer.checkpoint import CheckpointReader
from tfdist_trainer.evaluation_store import BestPolicy, EvaluationStore, StoredEvaluation
from tfdist_trainer.timestamps import now_text

LOWEST_LOSS: Final = BestPolicy(metric="loss", goal="Minimize")
"""Of a job without `evaluation`: each validation has a loss."""


def best_policy(evaluation: Mapping[str, Any] | None) -> BestPolicy:
    """Return the policy that `spec.evaluation` selects, or the lowest loss."""
    if evaluation is None:
        return LOWEST_LOSS
    try:
        return BestPolicy.model_validate(evaluation)
    except pydantic.ValidationError as error:
        log.event("no-best", reason=f"evaluation: {error.errors()[0]['msg']}")
        return LOWEST_LOSS


class ScriptEvaluations:
    """The results of this process, and those that earlier attempts of the job have stored.

    Args:
        policy: selects the best result.
        job: UID of the job; "" outside of one.
        update: changes fields of the progress report.
    """

    def __init__(self, policy: BestPolicy, job: str, update: Callable[..., None]) -> None:
        self._policy = policy
        self._job = job
        self._update = update
        self._results: list[StoredEvaluation] = []
        self._newest: StoredEvaluation | None = None
        self._is_reported = True
        self._lock = threading.Lock()
        """Held while results are replaced: a checkpoint is written in the background."""
        self._store: EvaluationStore | None = None

    def store_in(self, store: EvaluationStore, step: int) -> None:
        """Keep the best checkpoint from now on; load the results of earlier attempts, and report the best.

        Args:
            store: of the checkpoint directory.
            step: finished steps of the checkpoint that training resumes from; later results will be computed again.

        Raises:
            CheckpointUnwritableError: the directory cannot be written.
            StorageError: the storage failed.
        """
        self._store = store
        # Later ones are of steps that will be trained again, with other results.
        results = [result for result in store.results().values() if result.step <= step]
        self._newest = max(results, key=lambda result: result.step, default=None)
        # The attempt before may have been killed after it had saved the best checkpoint, and before it had named it.
        best = self._name_best(store, results)
        ranked = self._policy.rank(results)
        # Better results whose checkpoints are gone: they cannot be named any more.
        removed = ranked[: ranked.index(best)] if best is not None else ranked
        self._results = [result for result in results if result not in removed]
        self._is_reported = self._newest is None
        self.report()

    def add(self, step: int, metrics: Mapping[str, float], examples: int | None) -> None:
        """Report the evaluation of the model after `step` steps.

        Args:
            step: finished steps.
            metrics: over all examples, by name.
            examples: their number; None if unknown.
        """
        if self._policy.metric not in metrics and not self._results:
            log.event("no-best", reason=f"evaluation.metric: the validation computes {', '.join(sorted(metrics))}, not "
                      f"{self._policy.metric!r}; use one of these")  # fmt: skip
        self._newest = StoredEvaluation(
            step=step, metrics=dict(metrics), examples=examples, time=now_text(), job=self._job
        )
        with self._lock:
            # A script that has resumed repeats steps, and another model begins at the first one.
            self._results = [each for each in self._results if each.step < step] + [self._newest]
            self._is_reported = False
        self.report()

    @property
    def newest(self) -> StoredEvaluation | None:
        """The last result."""
        return self._newest

    @property
    def newest_is_best(self) -> bool:
        """Whether the last result is the best one."""
        return self._newest is not None and self.best is self._newest

    def record(self, result: StoredEvaluation, checkpoint: CheckpointReport) -> None:
        """Store that `checkpoint` has the model of `result`; any thread may call this.

        To be called before the checkpoint is complete: training resumes from a complete one and does not evaluate it
        again, so a process that is killed in between would lose the result.

        Raises:
            CheckpointUnwritableError: the directory cannot be written.
            StorageError: the storage failed.
        """
        if self._store is not None:
            self._store.record(_with_checkpoint(result, checkpoint), {})

    def keep(self, result: StoredEvaluation, checkpoint: CheckpointReport) -> None:
        """Report that `checkpoint`, which is complete, has the model of `result`, and keep it if it is the best.

        Any thread may call this.

        Raises:
            CheckpointUnwritableError: the directory cannot be written.
            StorageError: the storage failed.
        """
        if self._store is None:
            return
        saved = _with_checkpoint(result, checkpoint)
        with self._lock:
            self._results = [each for each in self._results if each is not result and each.step != saved.step] + [saved]
            if self._newest is result:
                self._newest = saved
            # Reported by the main thread: only one may change the report.
            self._is_reported = False
            results = [*self._results]
        self._name_best(self._store, results)

    def _name_best(self, store: EvaluationStore, results: Sequence[StoredEvaluation]) -> StoredEvaluation | None:
        """Name the best result that has a checkpoint in `best.json`, which keeps the checkpoint; return the result."""
        reader = CheckpointReader(store.folder)
        by_index = dict(enumerate(results))
        return store.update_best(self._policy, by_index, lambda result: reader.has(result.step, result.saved_at))

    def report(self) -> None:
        """Report the newest and the best result, if they have changed; on the main thread."""
        if self._is_reported:
            return
        self._is_reported = True
        best = self.best
        self._update(
            evaluation=self._newest.report if self._newest else None, best_evaluation=best.report if best else None
        )

    @property
    def best(self) -> StoredEvaluation | None:
        """The best result."""
        return next(iter(self._policy.rank(self._results)), None)


def _with_checkpoint(result: StoredEvaluation, checkpoint: CheckpointReport) -> StoredEvaluation:
    """Return the result of the model in `checkpoint`."""
    location = {"step": checkpoint.step, "checkpoint": checkpoint.path, "saved_at": checkpoint.time}
    return result.model_copy(update=location)
