"""Reports a `fit` that each of several workers runs alone, because its model is not one of the strategy of all.

Each worker trains a model of its own then, on all data: the job takes as long as with one worker, and costs as much as
with all. A job that asks for one training, by `checkpoint` or `training.export`, ends.
"""

import functools
import os
from collections.abc import Callable
from typing import Any

from tfdist.contract import ReplicaJob
from tfdist_trainer import environment, log, script, script_end
from tfdist_trainer.errors import ConfigurationError, TrainerError
from tfdist_trainer.keras.needs import asks_for_one_training, trains_together, workers
from tfdist_trainer.upstream import keras_fit
from tfdist_trainer.upstream.strategy_worker import worker_of


@functools.cache
def install(allowed_by: str) -> None:
    """Replace `fit`, once in each process of a synchronous gang of several workers.

    Args:
        allowed_by: what lets each worker train alone, for the message: a variable and its value.
    """
    try:
        job, _ = environment.read_replica(os.environ)
    except TrainerError:  # `script` logs it
        return
    if trains_together(job):
        keras_fit.wrap(keras_fit.FIT, TrainedAlone(job, allowed_by).wrap_fit)


class TrainedAlone:
    """The calls of `fit` of this process, of which the first one without the strategy is reported."""

    def __init__(self, job: ReplicaJob, allowed_by: str) -> None:
        self._job, self._allowed_by = job, allowed_by
        self._asks_for_one = asks_for_one_training(job)
        self._is_reported = False
        self._running = 0
        """Number of calls of `fit` of all workers that run: one in a callback of theirs is a part of them."""

    def wrap_fit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `fit`, which reports or rejects a model that this worker would train alone."""

        def fit(model: Any, *args: Any, **kwargs: Any) -> Any:
            # By the model: `TF_CONFIG` may have been removed by the script.
            if worker_of(model.distribute_strategy) is None:
                self._train_alone(model)
                return original(model, *args, **kwargs)
            self._running += 1
            try:
                return original(model, *args, **kwargs)
            finally:
                self._running -= 1

        return fit

    def _train_alone(self, model: Any) -> None:
        # A callback may train a model on the side.
        if self._running or self._is_reported:
            return
        self._is_reported = True
        alone = f"set {self._allowed_by} if each worker is to train a model of its own"
        if self._asks_for_one:
            alone = f"remove checkpoint and training.export, and {alone}"
        text = (
            f"fit runs on each of {workers(self._job)} workers alone, because the model is not one of "
            "MultiWorkerMirroredStrategy: create, load and compile the model in strategy.scope(), and leave TF_CONFIG "
            f"as it is; or {alone}"
        )
        log.event("trained-alone", model=model.name, reason=text)
        script.report_training_alone()
        if self._asks_for_one:
            script_end.leave_with(ConfigurationError(text))
