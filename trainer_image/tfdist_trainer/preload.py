"""What a warm process imports before it knows of a round, so that its forks need not.

Importing TensorFlow takes seconds, and starts none of its runtime: no device is opened and no thread pool made, which
would not survive a fork. `is_started` tells whether that still holds.
"""

import contextlib
import importlib
import json
import os
import sys
from typing import Final

from tfdist.contract import JOB_ENV
from tfdist_trainer import errors, runtime

MODULES: Final = (
    *("loop", "evaluate", "context", "strategies.build"),
    *("programs.image_classification", "programs.tabular", "programs.text_classification"),
)
"""Of this package, with all that they import."""


def trainer() -> None:
    """Import what `python -m tfdist_trainer` needs, with the settings of the job in the environment.

    A mistake in those is left to the program, which explains it.
    """
    with contextlib.suppress(errors.TrainerError, ValueError, AttributeError):
        told = json.loads(os.environ.get(JOB_ENV, "{}"))
        config = (told.get("training") or {}).get("config", {})
        settings = runtime.read(told.get("runtime", {}))
        runtime.prepare(os.environ, settings, legacy_keras=runtime.needs_legacy_keras(config))
    for name in MODULES:
        importlib.import_module(f"tfdist_trainer.{name}")


def script() -> None:
    """Import what most scripts of a user need: TensorFlow, where it is installed."""
    with contextlib.suppress(ImportError):
        importlib.import_module("tensorflow")


def is_started() -> bool:
    """Return whether TensorFlow's runtime has been started in this process, which must not be forked then."""
    eager = sys.modules.get("tensorflow.python.eager.context")
    if eager is None:
        return False
    return bool(eager.context()._context_handle is not None)  # noqa: SLF001  there is no public way to ask
