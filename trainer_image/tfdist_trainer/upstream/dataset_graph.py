"""Private hooks of `tf.data`: the inputs of a data set, to see whether it reads files, and the sizes of its batches."""

from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.upstream.hook import Hook, fall_back

INPUTS: Final = Hook(
    package="tensorflow",
    name="tensorflow.data:Dataset._inputs",
    source="tensorflow/python/data/ops/dataset_ops.py",
    reason="A data set of files is sharded by file, and any other one by rows; `tf.data` has no public way to ask.",
    missing="data sets of files are sharded by rows, so each worker reads all of them",
    parameters=("self",),
)
BATCH_SIZE: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.data.ops.batch_op:_BatchDataset()._batch_size",
    reason="The size of a batch is not in the shapes of a data set whose last batch may be smaller.",
    missing="no examples per second in the progress of a script",
)
HOOKS: Final = (INPUTS, BATCH_SIZE)

_READERS: Final = ("TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset", "CSVDataset")

_ZIP: Final = "Zip"
_KEEPS_ALL_BATCHES: Final = ("Cache", "Map", "Options", "ParallelMap", "Prefetch", "Shuffle")
_KEEPS_BATCHES: Final = (*_KEEPS_ALL_BATCHES, "Repeat", "Skip", "Take")


def reads_files(dataset: Any) -> bool:
    """Return whether `dataset` reads files by TensorFlow's own readers, also inside of `interleave` and `flat_map`."""
    # Sharding by rows is right for any data set, and only slower for files.
    if not hasattr(dataset, "_inputs"):
        fall_back(INPUTS)
        return False
    if type(dataset).__name__.lstrip("_").startswith(_READERS) or _function_reads_files(dataset):
        return True
    return any(reads_files(each) for each in dataset._inputs())


def _function_reads_files(dataset: Any) -> bool:
    function = getattr(getattr(dataset, "_map_func", None), "function", None)
    graph = getattr(function, "graph", None)
    return graph is not None and any(each.type.startswith(_READERS) for each in graph.get_operations())


def batch_size(dataset: Any) -> int | None:
    """Return the examples in a batch of `dataset`, but for a smaller last one; None if unknown."""
    while isinstance(dataset, tf.data.Dataset):
        size = getattr(dataset, BATCH_SIZE.attribute, None)
        if size is not None:
            static_size = tf.get_static_value(size)
            return None if static_size is None else int(static_size)
        # Any other transformation may change the size of its batches.
        if not type(dataset).__name__.lstrip("_").startswith(_KEEPS_BATCHES):
            return None
        (dataset,) = dataset._inputs()
    return None


def count(dataset: Any, first: int | None = None) -> int | None:
    """Return the examples in the `first` batches of `dataset`, by default in all; None if it does not show them."""
    while isinstance(dataset, tf.data.Dataset):
        if getattr(dataset, BATCH_SIZE.attribute, None) is not None:
            return _count_in_batches(dataset, first)
        if not type(dataset).__name__.lstrip("_").startswith(_KEEPS_ALL_BATCHES):
            return None
        (dataset,) = dataset._inputs()
    return None


def _count_in_batches(dataset: Any, first: int | None) -> int | None:
    (elements,) = dataset._inputs()
    examples, batches, size = int(elements.cardinality()), int(dataset.cardinality()), batch_size(dataset)
    if examples < 0 or batches < 0 or size is None:
        return None
    return min(examples, size * (batches if first is None else min(first, batches)))


def caches(dataset: Any) -> bool:
    """Return whether `dataset` keeps elements in a cache, which is complete after the first iteration only."""
    if not hasattr(dataset, INPUTS.attribute):
        return False
    return type(dataset).__name__.startswith("Cache") or any(map(caches, dataset._inputs()))


def zipped_batches(dataset: Any) -> list[tuple[int, int]] | None:
    """Return for each part of an element which `batch` of `dataset` has made its rows, and how many; None if unknown.

    The first number is the same for parts of one `batch`. The parts are as of `tf.nest.flatten`. A function that is
    mapped over batches of different sizes must keep the number of parts.
    """
    parts = len(tf.nest.flatten(dataset.element_spec))
    if getattr(dataset, BATCH_SIZE.attribute, None) is not None:
        size = batch_size(dataset)
        return None if size is None else [(id(dataset), size)] * parts
    name = type(dataset).__name__.lstrip("_")
    if not name.startswith((*_KEEPS_BATCHES, _ZIP)) or not hasattr(dataset, INPUTS.attribute):
        return None
    inputs = [zipped_batches(each) for each in dataset._inputs()]
    joined = [part for each in inputs for part in each or ()]
    if None in inputs or not joined:
        return None
    if len(set(joined)) == 1:
        return joined[:1] * parts
    return joined if len(joined) == parts else None
