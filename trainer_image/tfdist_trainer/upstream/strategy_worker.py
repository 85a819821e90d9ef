"""Private hooks of `MultiWorkerMirroredStrategy`: the place of this worker, and updates without `merge_call`."""

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.upstream.collective_connect import gil_free_connect
from tfdist_trainer.upstream.hook import Hook, fall_back, reject

_EXTENDED: Final = "tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended"
_MIRRORED: Final = "tensorflow.python.distribute.mirrored_strategy"

MULTI_WORKER: Final = Hook(
    package="tensorflow",
    name=f"{_EXTENDED}._in_multi_worker_mode",
    reason="A strategy of one worker has the same class.",
    missing="training ends with a configuration error",
    parameters=("self",),
)
MERGE_CALL: Final = Hook(
    package="tensorflow",
    name=f"{_EXTENDED}._use_merge_call",
    reason="Optimizers update variables by `merge_call`, which no `tf.cond` may contain, as in gradient "
    "accumulation. Gradients are equal on all replicas then, so each can update its own copy.",
    missing="training ends with a configuration error",
    parameters=("self",),
)
RANK: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.distribute.multi_worker_util:id_in_cluster",
    reason="The number of the first replica of a worker follows from its place in the cluster, which the strategy has "
    "no public property for.",
    missing="training ends with a configuration error",
    parameters=("cluster_spec", "task_type", "task_id"),
)
LOCAL_DEVICES: Final = Hook(
    package="tensorflow",
    name=f"{_MIRRORED}:all_local_devices",
    reason="In a process that is connected it returns the devices of all workers too, and `MirroredStrategy` ends the "
    "process with a segmentation fault.",
    missing="training ends with a configuration error",
    parameters=("num_gpus",),
)
KEYS: Final = Hook(
    package="tensorflow",
    name=f"{_MIRRORED}:MirroredStrategy._collective_key_base",
    reason="Workers that each train with a `MirroredStrategy` of their own need other keys of collectives each.",
    missing="training ends with a configuration error",
)
NUMBER: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.distribute.values:DistributedVariable.numpy",
    reason="Variables of one process are numbers, as in `float(optimizer.learning_rate)`, and variables of a strategy "
    "are not.",
    missing="`float` and `int` of a variable of the strategy fail",
    parameters=("self",),
)
HOOKS: Final = (MULTI_WORKER, MERGE_CALL, RANK, LOCAL_DEVICES, KEYS, NUMBER)

_KEYS_OF_WORKER: Final = 1_000_000
"""More groups of devices than the strategies of a process have."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The place of this worker among the workers of a strategy."""

    index: int
    """Rank among the workers, from 0, the chief."""
    count: int
    """Number of workers."""
    replicas_per_worker: int

    @property
    def replicas(self) -> int:
        """Replicas of all workers."""
        return self.count * self.replicas_per_worker

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes files."""
        return self.index == 0


def worker_of(strategy: Any) -> Worker | None:
    """Return the place of this worker in a `MultiWorkerMirroredStrategy` of several workers; None in any other one.

    Raises:
        ConfigurationError: TensorFlow has other names.
    """
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return None
    extended = strategy.extended
    # Without it a gang would train as single workers, each with the wrong result: no fallback.
    if not hasattr(extended, "_in_multi_worker_mode"):
        reject(MULTI_WORKER)
    if not extended._in_multi_worker_mode():
        return None
    from tensorflow.python.distribute import multi_worker_util  # noqa: PLC0415  private, so only if it is needed

    resolver = strategy.cluster_resolver
    spec = resolver.cluster_spec()
    index = multi_worker_util.id_in_cluster(spec, resolver.task_type, resolver.task_id)
    replicas_per_worker = len(extended.worker_devices)
    count = strategy.num_replicas_in_sync // replicas_per_worker
    return Worker(index, count, replicas_per_worker) if count > 1 else None


def connect() -> None:
    """Connect this process to the other workers of `TF_CONFIG`, as a strategy that the script creates later would.

    Does nothing in TensorFlow 1's mode of graphs, in which sessions connect.

    Raises:
        ConfigurationError: TensorFlow has other names.
    """
    with tf.init_scope():  # the first operation may be in a graph
        if tf.executing_eagerly():
            with gil_free_connect():
                strategy = tf.distribute.MultiWorkerMirroredStrategy()
            _keep_mirrored_strategies_local(strategy)


def _keep_mirrored_strategies_local(strategy: Any) -> None:
    """Let each worker create a `MirroredStrategy` of its own devices, as in a process that is not connected."""
    from tensorflow.python.distribute import mirrored_strategy  # noqa: PLC0415  private, so only if it is needed

    worker = worker_of(strategy)
    original = getattr(mirrored_strategy, "all_local_devices", None)
    if worker is None or original is None:
        reject(LOCAL_DEVICES)
    # In a connected process TensorFlow lists the devices of all workers.
    own = strategy.extended.worker_devices[0].partition("/device")[0]

    @functools.wraps(original)
    def local_devices(num_gpus: int | None = None) -> Any:
        devices = [device for device in original() if device.name.startswith(f"{own}/")]
        return devices if num_gpus is None or devices[0].device_type != "GPU" else devices[:num_gpus]

    mirrored_strategy.all_local_devices = local_devices
    mirrored_strategy.MirroredStrategy._collective_key_base = _KEYS_OF_WORKER * (worker.index + 1)


def make_variables_numbers() -> None:
    """Let `float`, `int` and `complex` convert variables of a strategy, as in one process."""
    from tensorflow.python.distribute import values  # noqa: PLC0415  private, so only if it is needed

    if not hasattr(values.DistributedVariable, "numpy"):
        fall_back(NUMBER)
        return
    for kind in (float, int, complex):
        setattr(values.DistributedVariable, f"__{kind.__name__}__", lambda self, kind=kind: kind(self.numpy()))


@contextlib.contextmanager
def local_updates(strategy: Any) -> Iterator[None]:
    """Make each replica update its own copy of a variable inside, without `merge_call`.

    Raises:
        ConfigurationError: TensorFlow has no such switch.
    """
    extended = strategy.extended
    if not hasattr(extended, "_use_merge_call"):
        reject(MERGE_CALL)
    # On this strategy object only, and only while a step is traced.
    extended._use_merge_call = lambda: False
    try:
        yield
    finally:
        del extended._use_merge_call
