"""Private hooks of TensorFlow's eager context: whether the runtime has started, its start, and settings of its devices.

The module imports nothing of TensorFlow: the fork server calls it in a process that may not have imported it.
"""

import functools
import importlib
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from tfdist_trainer.upstream.hook import Hook, fall_back, reject

MODULE: Final = "tensorflow.python.eager.context"

CONFIG: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:context().config",
    reason="`tf.distribute.Server` takes the settings of devices and threads as a `ConfigProto`; without one it "
    "ignores the settings of `tf.config`, which has no public way to read them all.",
    missing="a worker or parameter server ends with a configuration error",
)
HANDLE: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:context()._context_handle",
    reason="A process whose runtime has started has threads, and must not be forked. The public ways to ask start it.",
    missing="the runtime counts as started: the launcher starts new processes instead of forks",
)
SEED: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:global_seed",
    reason="A script that has set no global seed gets one that is equal on all workers. The public `get_seed` draws a "
    "number, which changes those that follow.",
    missing="the seed counts as set: without one of its own, a script shuffles differently on each worker",
    parameters=(),
)
GPU_MEMORY: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:context()._config",
    reason="`tf.config` limits the memory of a GPU in MiB only, and reports its size only after the runtime has "
    "started. The fraction is an option of `ConfigProto`, and `tf.compat.v1.enable_eager_execution`, which takes one, "
    "ignores it in TensorFlow 2.",
    missing="a replica with `runtime.gpuMemoryFraction` ends with a configuration error",
)
START: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:Context.ensure_initialized",
    reason="A script may begin with its data, but TensorFlow connects workers only before its first operation, and "
    "`tf.config` changes devices and threads until then. No public way exists to act right before it.",
    missing="a script has to create MultiWorkerMirroredStrategy before its first operation",
    parameters=("self",),
)
CONFIGURE: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:Context.configure_collective_ops",
    reason="Its error for a strategy that is created too late does not name the remedy, and it rejects one of this "
    "process alone with another error than the one that `MirroredStrategy` goes on after.",
    missing="a script has to create MultiWorkerMirroredStrategy before its first operation",
    parameters=(
        *("self", "collective_leader", "scoped_allocator_enabled_ops"),
        *("use_nccl_communication", "device_filters"),
    ),
)
ENABLE: Final = Hook(
    package="tensorflow",
    name=f"{MODULE}:Context.enable_collective_ops",
    reason="A second strategy connects the process again: with two threads between operations, the next collective "
    "waits for ever then. It also warns of errors that do not occur.",
    missing="a script has to create MultiWorkerMirroredStrategy before its first operation",
    parameters=("self", "server_def"),
)
HOOKS: Final = (CONFIG, HANDLE, SEED, GPU_MEMORY, START, CONFIGURE, ENABLE)

_TOO_LATE: Final = (
    "MultiWorkerMirroredStrategy must be created before the first operation of this process, such as a tensor, a data "
    "set or a model: move it to the beginning of the script, after the imports"
)


def server_config() -> Any:
    """Return as a `ConfigProto` the settings that `tf.config` has made in this process, for a `tf.distribute.Server`.

    Raises:
        ConfigurationError: TensorFlow lacks the hook.
    """
    context = _context(importlib.import_module(MODULE))
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
    context = _context(importlib.import_module(MODULE))
    if not hasattr(context, "_config"):
        reject(GPU_MEMORY)
    if context._config is None:
        context._config = importlib.import_module("tensorflow").compat.v1.ConfigProto()
    context._config.gpu_options.per_process_gpu_memory_fraction = fraction


def runtime_is_started() -> bool:
    """Return whether TensorFlow's runtime has started in this process; False if TensorFlow is not imported."""
    # Not imported for the question: the fork server must stay without TensorFlow if the command does not need it.
    module = sys.modules.get(MODULE)
    if module is None:
        return "tensorflow" in sys.modules
    # Without the hook the answer is the safe one: a process that counts as started is not forked.
    return getattr(_context(module), "_context_handle", True) is not None


def before_start(connect: Callable[[], None]) -> None:
    """Call `connect` once, right before the first operation of this process, unless a strategy has connected it.

    An operation of another thread waits meanwhile.
    """
    context: Any = getattr(importlib.import_module(MODULE), "Context", None)
    for hook in (START, CONFIGURE, ENABLE):
        if not hasattr(context, hook.attribute):
            fall_back(hook)
            return
    # Reentrant: to connect runs operations, which come here again.
    original, lock, calls = context.ensure_initialized, threading.RLock(), [connect]

    @functools.wraps(original)
    def ensure_initialized(self: Any) -> None:
        with lock:
            is_first = bool(calls)
            calls.clear()  # before, as to connect runs operations too
            # A strategy that was created first has connected the process.
            if is_first and getattr(self, "_collective_ops_server_def", None) is None:
                connect()
        # Once: each operation of the process would pass here.
        context.ensure_initialized = original
        original(self)

    context.ensure_initialized = ensure_initialized
    context.configure_collective_ops = _configuration(context.configure_collective_ops)
    context.enable_collective_ops = _once(context.enable_collective_ops)


def _once(original: Callable[..., None]) -> Callable[..., None]:
    """Return a method that connects this process to a cluster, without effect if it is connected to it."""

    @functools.wraps(original)
    def enable(self: Any, server_def: Any) -> None:
        former = getattr(self, "_collective_ops_server_def", None)
        # A second connection to the same cluster makes the next collective wait for ever.
        if former is None or _member(former) != _member(server_def) or not runtime_is_started():
            original(self, server_def)

    return enable


def _member(server_def: Any) -> tuple[Any, ...]:
    return server_def.cluster.SerializeToString(deterministic=True), server_def.job_name, server_def.task_index


def _configuration(original: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(original)
    def configure(self: Any, collective_leader: str = "", *args: Any, **kwargs: Any) -> None:
        try:
            original(self, collective_leader, *args, **kwargs)
        except (RuntimeError, ValueError) as error:
            # A wrong configuration of the cluster is not an operation that came too early.
            if collective_leader and isinstance(error, ValueError):
                raise
            raise RuntimeError(f"{error}. {_TOO_LATE}" if collective_leader else str(error)) from error

    return configure


def has_global_seed() -> bool:
    """Return whether `tf.random.set_seed` was called in this process."""
    module = importlib.import_module(MODULE)
    return not hasattr(module, "global_seed") or module.global_seed() is not None


def _context(module: Any) -> Any:
    return module.context()
