"""A private hook of `tf.data`: the inputs of a data set, to see whether it reads files."""

from typing import Any, Final

from tfdist_trainer.upstream.hook import Hook, fall_back

INPUTS: Final = Hook(
    package="tensorflow",
    name="tensorflow.data:Dataset._inputs",
    source="tensorflow/python/data/ops/dataset_ops.py",
    reason="A data set of files is sharded by file, and any other one by rows; `tf.data` has no public way to ask.",
    missing="data sets of files are sharded by rows, so each worker reads all of them",
    parameters=("self",),
)
HOOKS: Final = (INPUTS,)

_READERS: Final = ("TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset", "CSVDataset")


def reads_files(dataset: Any) -> bool:
    """Return whether `dataset` reads files by TensorFlow's own readers, also inside of `interleave` and `flat_map`."""
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
