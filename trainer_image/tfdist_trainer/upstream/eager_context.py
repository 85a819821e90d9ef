"""Private hooks of TensorFlow's eager context: whether the runtime has started, and the settings of its devices.

The module imports nothing of TensorFlow: the fork server asks about a process that may not have imported it.
"""

import importlib
import sys
from typing import Any, Final

from tfdist_trainer.upstream.hook import Hook, reject

_MODULE: Final = "tensorflow.python.eager.context"

CONFIG: Final = Hook(
    package="tensorflow",
    name=f"{_MODULE}:context().config",
    reason="`tf.distribute.Server` takes the settings of devices and threads as a `ConfigProto`; without one it "
    "ignores those of `tf.config`, which has no public way to read them all.",
    missing="a worker or parameter server ends with a configuration error",
)
HANDLE: Final = Hook(
    package="tensorflow",
    name=f"{_MODULE}:context()._context_handle",
    reason="A process whose runtime has started has threads, and must not be forked. The public ways to ask start it.",
    missing="the runtime counts as started: the launcher starts new processes instead of forks",
)
HOOKS: Final = (CONFIG, HANDLE)


def server_config() -> Any:
    """Return as a `ConfigProto` the settings that `tf.config` has made in this process, for a `tf.distribute.Server`.

    Raises:
        ConfigurationError: TensorFlow lacks the hook.
    """
    context = _context(importlib.import_module(_MODULE))
    if not hasattr(type(context), "config"):
        reject(CONFIG)
    return context.config


def runtime_is_started() -> bool:
    """Return whether TensorFlow's runtime has started in this process; False where TensorFlow is not imported."""
    module = sys.modules.get(_MODULE)
    if module is None:
        return "tensorflow" in sys.modules
    return getattr(_context(module), "_context_handle", True) is not None


def _context(module: Any) -> Any:
    return module.context()
