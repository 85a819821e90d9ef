"""Private hooks of TensorFlow's eager context: whether the runtime has started, and the settings of its devices.

The module imports nothing of TensorFlow: the fork server calls it in a process that may not have imported it.
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
SEED: Final = Hook(
    package="tensorflow",
    name=f"{_MODULE}:global_seed",
    reason="A script that has set no global seed gets one that is equal on all workers. The public `get_seed` draws a "
    "number, which changes those that follow.",
    missing="the seed counts as set: without one of its own, a script shuffles differently on each worker",
    parameters=(),
)
GPU_MEMORY: Final = Hook(
    package="tensorflow",
    name=f"{_MODULE}:context()._config",
    reason="`tf.config` limits the memory of a GPU in MiB only, and reports its size only after the runtime has "
    "started. The fraction is an option of `ConfigProto`, and `tf.compat.v1.enable_eager_execution`, which takes one, "
    "ignores it in TensorFlow 2.",
    missing="a replica with `runtime.gpuMemoryFraction` ends with a configuration error",
)
HOOKS: Final = (CONFIG, HANDLE, SEED, GPU_MEMORY)


def server_config() -> Any:
    """Return as a `ConfigProto` the settings that `tf.config` has made in this process, for a `tf.distribute.Server`.

    Raises:
        ConfigurationError: TensorFlow lacks the hook.
    """
    context = _context(importlib.import_module(_MODULE))
    if not hasattr(type(context), "config"):
        reject(CONFIG)
    return context.config


def limit_gpu_memory(fraction: float) -> None:
    """Limit what TensorFlow allocates on each GPU to `fraction` (0 to 1) of its total memory.

    Raises:
        ConfigurationError: TensorFlow lacks the hook.
        RuntimeError: the runtime has started; functions of `tf.config` raise the same error.
    """
    if runtime_is_started():
        raise RuntimeError("the fraction of GPU memory cannot be set after the runtime has started")
    context = _context(importlib.import_module(_MODULE))
    if not hasattr(context, "_config"):
        reject(GPU_MEMORY)
    if context._config is None:
        context._config = importlib.import_module("tensorflow").compat.v1.ConfigProto()
    context._config.gpu_options.per_process_gpu_memory_fraction = fraction


def runtime_is_started() -> bool:
    """Return whether TensorFlow's runtime has started in this process; False if TensorFlow is not imported."""
    module = sys.modules.get(_MODULE)
    if module is None:
        return "tensorflow" in sys.modules
    return getattr(_context(module), "_context_handle", True) is not None


def has_global_seed() -> bool:
    """Return whether `tf.random.set_seed` was called in this process."""
    module = importlib.import_module(_MODULE)
    return not hasattr(module, "global_seed") or module.global_seed() is not None


def _context(module: Any) -> Any:
    return module.context()
