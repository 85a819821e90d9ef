"""Private hooks of `MultiWorkerMirroredStrategy`: the place of this worker, and updates without `merge_call`."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.upstream.hook import Hook, reject

_EXTENDED: Final = "tensorflow.python.distribute.collective_all_reduce_strategy:CollectiveAllReduceExtended"

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
    reason="Optimizers update variables by `merge_call`, which no `tf.cond` may contain, such as that of gradient "
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
HOOKS: Final = (MULTI_WORKER, MERGE_CALL, RANK)


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


@contextlib.contextmanager
def local_updates(strategy: Any) -> Iterator[None]:
    """Make each replica update its own copy of a variable inside, without `merge_call`.

    Raises:
        ConfigurationError: TensorFlow has no such switch.
    """
    extended = strategy.extended
    if not hasattr(extended, "_use_merge_call"):
        reject(MERGE_CALL)
    extended._use_merge_call = lambda: False
    try:
        yield
    finally:
        del extended._use_merge_call
