"""The process around TensorFlow: environment variables that it reads when it is imported."""

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path


def prepare(environ: MutableMapping[str, str]) -> None:
    """Set what must be set before TensorFlow and Keras are imported; what the user has set stays.

    The root file system is read-only and the user may have no home, so Keras gets one under the temporary
    directory.
    """
    # Errors only: the distributed iterator warns at each epoch that its own generator cannot be optimized.
    environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    environ.setdefault("KERAS_BACKEND", "tensorflow")
    environ.setdefault("KERAS_HOME", str(Path(tempfile.gettempdir(), f"keras-{os.getuid()}")))
    environ.setdefault("MPLCONFIGDIR", environ["KERAS_HOME"])
