"""Imports that the fork server does once, so that the processes it forks need not.

The import of TensorFlow takes seconds, but does not start its runtime: it opens no device and creates no thread pool,
neither of which would survive a fork. `is_started` checks that this still holds.
"""

import contextlib
import importlib
import json
import os
from typing import Final

from tfdist.contract import JOB_ENV
from tfdist_trainer import errors, runtime
from tfdist_trainer.upstream import eager_context

MODULES: Final = (
    "task",
    *("programs.image_classification", "programs.tabular", "programs.text_classification"),
)
"""Of this package, with all that they import."""


def trainer() -> None:
    """Import what `python -m tfdist_trainer` needs, with the settings of the job in the environment.

    Errors in the settings are left to the training process, which reports them.
    """
    with contextlib.suppress(errors.TrainerError, ValueError, AttributeError):
        job = json.loads(os.environ.get(JOB_ENV, "{}"))
        config = (job.get("training") or {}).get("config", {})
        # TensorFlow and Keras read these variables on import, so in the fork it is too late.
        runtime.prepare(os.environ, runtime.read(job.get("runtime", {})), config)
    for name in MODULES:
        importlib.import_module(f"tfdist_trainer.{name}")


def script() -> None:
    """Import TensorFlow, if installed, which most scripts of users need."""
    with contextlib.suppress(ImportError):
        importlib.import_module("tensorflow")


def is_started() -> bool:
    """Return whether TensorFlow's runtime has been started in this process, which must not be forked then."""
    return eager_context.runtime_is_started()
