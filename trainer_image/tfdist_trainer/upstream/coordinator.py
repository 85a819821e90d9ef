"""Private hooks of `ClusterCoordinator`: an iterator on each worker over a data set of its own.

`ClusterCoordinator.create_per_worker_dataset` is public, and gives all workers the same data set. The functions here do
what its iterator does (`PerWorkerDatasetFromDatasetFunction.__iter__`), with another data set for each worker.
"""

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.distribute import input_lib
from tensorflow.python.distribute.coordinator import values

from tfdist_trainer.upstream.hook import Hook, reject

_FOLDER: Final = "tensorflow/python/distribute"
_COORDINATOR: Final = "tensorflow.python.distribute.coordinator"
_ENDS: Final = "training under ParameterServer ends with a configuration error"

WORKERS: Final = Hook(
    package="tensorflow",
    name=f"{_COORDINATOR}.cluster_coordinator:ClusterCoordinator()._cluster",
    source=f"{_FOLDER}/coordinator/cluster_coordinator.py",
    reason="`_cluster.workers` are the workers, to create a resource on one of them.",
    missing=_ENDS,
)
RESOURCE: Final = Hook(
    package="tensorflow",
    name=f"{_COORDINATOR}.cluster_coordinator:Worker.create_resource",
    source=f"{_FOLDER}/coordinator/cluster_coordinator.py",
    reason="Creates an iterator on one worker, and again when that worker comes back.",
    missing=_ENDS,
    parameters=("self", "function", "args", "kwargs"),
)
TYPE_SPEC: Final = Hook(
    package="tensorflow",
    name=f"{_COORDINATOR}.values:RemoteValueImpl()._type_spec",
    source=f"{_FOLDER}/coordinator/values.py",
    reason="A function is traced with the type of the remote iterator, which TensorFlow cannot infer.",
    missing=_ENDS,
)
ITERATOR: Final = Hook(
    package="tensorflow",
    name=f"{_COORDINATOR}.values:PerWorkerDistributedIterator",
    source=f"{_FOLDER}/coordinator/values.py",
    reason="The argument of `schedule` that stands for each worker's own iterator.",
    missing=_ENDS,
    parameters=("values",),
)
SERIALIZE: Final = Hook(
    package="tensorflow",
    name=f"{_COORDINATOR}.values:serialize_dataset_to_graph",
    source=f"{_FOLDER}/coordinator/values.py",
    reason="A data set is an object of the chief's process; its graph can be sent to a worker.",
    missing=_ENDS,
    parameters=("dataset",),
)
DESERIALIZE: Final = Hook(
    package="tensorflow",
    name=f"{_COORDINATOR}.values:deserialize_dataset_from_graph",
    source=f"{_FOLDER}/coordinator/values.py",
    reason="Makes a data set on the worker of the graph that was sent.",
    missing=_ENDS,
    parameters=("graph_def", "element_spec"),
)
ITERATOR_SPEC: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.distribute.input_lib:get_iterator_spec_from_dataset",
    source=f"{_FOLDER}/input_lib.py",
    reason="The type of the iterator, for `_type_spec`.",
    missing=_ENDS,
    parameters=("strategy", "dataset"),
)
HOOKS: Final = (WORKERS, RESOURCE, TYPE_SPEC, ITERATOR, SERIALIZE, DESERIALIZE, ITERATOR_SPEC)


def per_worker_iterator(
    coordinator: tf.distribute.coordinator.ClusterCoordinator, dataset_of: Callable[[int, int], tf.data.Dataset]
) -> object:
    """Return an argument for `coordinator.schedule` that is another iterator on each worker.

    Args:
        coordinator: whose workers get an iterator each.
        dataset_of: (index of the worker, number of workers) -> its data set. Called here, once for each worker.

    Raises:
        ConfigurationError: TensorFlow lacks a hook.
    """
    workers = getattr(getattr(coordinator, "_cluster", None), "workers", None)
    if workers is None:
        reject(WORKERS)
    for hook in (ITERATOR, SERIALIZE, DESERIALIZE):
        if not hasattr(values, hook.attribute):
            reject(hook)
    if not hasattr(input_lib, "get_iterator_spec_from_dataset"):
        reject(ITERATOR_SPEC)
    iterators = []
    for index, worker in enumerate(workers):
        create, spec = _iterator(coordinator.strategy, dataset_of(index, len(workers)))
        remote = worker.create_resource(create)
        remote._type_spec = spec
        iterators.append(remote)
    return values.PerWorkerDistributedIterator(tuple(iterators))


def _iterator(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> tuple[Callable[[], Any], Any]:
    """Return a function that creates an iterator of `dataset` on a worker, and the iterator's type."""
    graph = values.serialize_dataset_to_graph(dataset)
    build = tf.function(
        lambda: values.deserialize_dataset_from_graph(graph, dataset.element_spec)
    ).get_concrete_function()
    spec = input_lib.get_iterator_spec_from_dataset(strategy, build.structured_outputs)
    return lambda: iter(build()), spec
