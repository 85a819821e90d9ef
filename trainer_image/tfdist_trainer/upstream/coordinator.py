"""Private hooks of `ClusterCoordinator`: an iterator on each worker over a separate data set, and its number.

`ClusterCoordinator.create_per_worker_dataset` is public, and gives all workers the same data set. The functions here do
what its iterator does (`PerWorkerDatasetFromDatasetFunction.__iter__`), with another data set for each worker.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.distribute import input_lib
from tensorflow.python.distribute.coordinator import values

from tfdist_trainer.upstream.hook import Hook, reject


def _hook(name: str, reason: str, *parameters: str) -> Hook:
    """Return a hook in `tensorflow.python.distribute`; without `parameters` it is not a function."""
    return Hook(
        package="tensorflow",
        name=f"tensorflow.python.distribute.{name}",
        reason=reason,
        missing="training under ParameterServer ends with a configuration error",
        parameters=parameters or None,
    )


WORKERS: Final = _hook(
    "coordinator.cluster_coordinator:ClusterCoordinator()._cluster",
    "`_cluster.workers` are the workers, to create a resource on one of them.",
)
RESOURCE: Final = _hook(
    "coordinator.cluster_coordinator:Worker.create_resource",
    "Creates an iterator or a number on one worker, and again when that worker comes back.",
    *("self", "function", "args", "kwargs"),
)
TYPE_SPEC: Final = _hook(
    "coordinator.values:RemoteValueImpl()._type_spec",
    "A function is traced with the type of the remote iterator or number, which TensorFlow cannot infer.",
)
ITERATOR: Final = _hook(
    "coordinator.values:PerWorkerDistributedIterator",
    "The argument of `schedule` that stands for each worker's own iterator.",
    "values",
)
SERIALIZE: Final = _hook(
    "coordinator.values:serialize_dataset_to_graph",
    "A data set is an object of the chief's process; its graph can be sent to a worker.",
    "dataset",
)
DESERIALIZE: Final = _hook(
    "coordinator.values:deserialize_dataset_from_graph",
    "Makes a data set on the worker of the graph that was sent.",
    *("graph_def", "element_spec"),
)
ITERATOR_SPEC: Final = _hook(
    "input_lib:get_iterator_spec_from_dataset",
    "The type of the iterator, for `_type_spec`.",
    *("strategy", "dataset"),
)
HOOKS: Final = (WORKERS, RESOURCE, TYPE_SPEC, ITERATOR, SERIALIZE, DESERIALIZE, ITERATOR_SPEC)


class DatasetTooLargeError(Exception):
    """The data set of `worker`, an index, exceeds what TensorFlow can send: a graph of 2 GB."""

    def __init__(self, worker: int) -> None:
        super().__init__(f"the data set of worker {worker} is too large to be sent")
        self.worker = worker


def per_worker_iterator(
    coordinator: tf.distribute.coordinator.ClusterCoordinator, dataset_of: Callable[[int, int], tf.data.Dataset]
) -> object:
    """Return an argument for `coordinator.schedule` that is another iterator on each worker.

    Args:
        coordinator: whose workers get an iterator each.
        dataset_of: (index of the worker, number of workers) -> its data set. Called here, once for each worker.

    Raises:
        ConfigurationError: TensorFlow lacks a hook.
        DatasetTooLargeError: the data set of a worker has more than 2 GB in memory.
    """
    workers = _workers(coordinator)
    # All before the first resource is created on a worker: nothing has to be undone.
    for module, hook in ((values, ITERATOR), (values, SERIALIZE), (values, DESERIALIZE), (input_lib, ITERATOR_SPEC)):
        if not hasattr(module, hook.attribute):
            reject(hook)
    iterators = []
    for index, worker in enumerate(workers):
        dataset = dataset_of(index, len(workers))
        graph = values.serialize_dataset_to_graph(dataset)
        if not tf.strings.length(graph):  # a graph that is too long for protobuf becomes an empty string
            raise DatasetTooLargeError(index)
        create, spec = _iterator(coordinator.strategy, graph, dataset.element_spec)
        # A resource is created again when its worker comes back.
        remote = worker.create_resource(create)
        remote._type_spec = spec
        iterators.append(remote)
    return values.PerWorkerDistributedIterator(tuple(iterators))


def per_worker_index(coordinator: tf.distribute.coordinator.ClusterCoordinator) -> object:
    """Return an argument for `coordinator.schedule` that is the index of the worker, int32 [], on each worker.

    Raises:
        ConfigurationError: TensorFlow lacks a hook.
    """
    indices = []
    for index, worker in enumerate(_workers(coordinator)):
        remote = worker.create_resource(functools.partial(tf.constant, index))
        remote._type_spec = tf.TensorSpec([], tf.int32)
        indices.append(remote)
    return tf.distribute.experimental.coordinator.PerWorkerValues(tuple(indices))


def _workers(coordinator: tf.distribute.coordinator.ClusterCoordinator) -> Sequence[Any]:
    """Return the workers of `coordinator` in order.

    Raises:
        ConfigurationError: TensorFlow has other names.
    """
    workers: Sequence[Any] | None = getattr(getattr(coordinator, "_cluster", None), "workers", None)
    if workers is None:
        reject(WORKERS)
    return workers


def _iterator(strategy: tf.distribute.Strategy, graph: tf.Tensor, elements: Any) -> tuple[Callable[[], Any], Any]:
    """Return a function that creates an iterator of the data set `graph` on a worker, and the iterator's type.

    `elements` is the type of the elements of the data set.
    """
    build = tf.function(lambda: values.deserialize_dataset_from_graph(graph, elements)).get_concrete_function()
    spec = input_lib.get_iterator_spec_from_dataset(strategy, build.structured_outputs)
    return lambda: iter(build()), spec
