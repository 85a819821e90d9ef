"""`fit` of a Keras that the trainer was not tested with: it is left to Keras, or ends a job that needs more."""

import functools
import os
from collections.abc import Callable
from typing import Any

import keras

from tfdist.contract import ReplicaJob
from tfdist_trainer import environment, log, script_end
from tfdist_trainer.errors import ConfigurationError, TrainerError
from tfdist_trainer.keras.trained_alone import trains_together
from tfdist_trainer.upstream import keras_fit
from tfdist_trainer.upstream.hook import KERAS


@functools.cache
def install(*, may_train_alone: bool) -> None:
    """Log that `fit` is left to Keras; if the job needs more than that, its first call ends the process.

    Args:
        may_train_alone: whether each of several workers may train a model of its own.
    """
    try:
        job, _ = environment.read_replica(os.environ)
    except TrainerError as error:
        log.event("no-report", reason=error)
        return
    # A job that asks for a checkpoint must not train without one and say nothing.
    needs = needs_of(job, may_train_alone=may_train_alone)
    log.event("keras-fit-off", keras=keras.__version__, reason=f"tested with keras{KERAS}")
    if needs:
        keras_fit.wrap(keras_fit.FIT, functools.partial(_reject, needs))


def needs_of(job: ReplicaJob, *, may_train_alone: bool) -> str:
    """Return what the specification of a job requests of `fit`, for a message; "" if nothing but training."""
    if job.role not in environment.GANG_ROLES:
        return ""
    requested = {
        "checkpoint": job.checkpoint is not None,
        "evaluation": job.evaluation is not None,
        "training.export": job.export is not None,
        "fit on several workers": trains_together(job) and not may_train_alone,
    }
    return " and ".join(name for name, is_requested in requested.items() if is_requested)


def _reject(needs: str, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: ARG001  it is never called
    def fit(*_: Any, **__: Any) -> Any:
        text = (
            f"Keras {keras.__version__}: {needs} of this job needs keras{KERAS}, which `pip install tfdist-trainer` "
            "installs; change the image, or remove what needs it"
        )
        script_end.leave_with(ConfigurationError(text))

    return fit
