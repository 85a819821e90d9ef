"""`fit` of a Keras or TensorFlow that the trainer was not tested with: Keras runs it, or a job that needs more ends.

It imports neither, and names no private part of them: any version can be this one.
"""

import functools
import os
from typing import Any, NoReturn

from tfdist_trainer import environment, log, script, script_end
from tfdist_trainer.errors import ConfigurationError, TrainerError
from tfdist_trainer.fit_switch import FIT_ENV, UNTESTED
from tfdist_trainer.keras.needs import needs_of
from tfdist_trainer.upstream import versions


def install(keras: Any, found: str, *, may_train_alone: bool) -> None:
    """Log that `fit` is left to Keras; if the job needs more than that, its first call ends the process.

    Args:
        keras: the module.
        found: the versions that were not tested.
        may_train_alone: whether each of several workers may train a model of its own.
    """
    try:
        job, _ = environment.read_replica(os.environ)
    except TrainerError as error:
        log.event("no-report", reason=error)
        return
    log.event("keras-fit-off", versions=found, reason=f"tested with {versions.REMEDY}")
    # A job that asks for a checkpoint must not train without one and say nothing.
    needs = needs_of(job, may_train_alone=may_train_alone)
    if not needs:
        # At the end only: a report without steps would look like a training without progress.
        script_end.when_succeeded(functools.partial(script.report_untested_versions, found))
    else:
        # The public class, which every Keras has: the private one may have moved.
        keras.Model.fit = functools.wraps(keras.Model.fit)(functools.partial(_reject, needs, found))


def _reject(needs: str, found: str, *_: Any, **__: Any) -> NoReturn:
    text = (
        f"image: {needs} of this job needs {versions.REMEDY}, and the image has {found}; install versions in these "
        f"ranges, or remove what needs them and let the script do it, or set {FIT_ENV}={UNTESTED} to try"
    )
    script_end.leave_with(ConfigurationError(text))
