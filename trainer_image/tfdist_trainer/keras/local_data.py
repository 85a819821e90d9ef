"""The data of one worker: its rows of each global batch, or its shard of the files.

All workers read the same data set of global batches, and each takes its rows: the first worker the first ones. So a
step sees the examples that it sees on one worker, all workers end together, and predictions are in order. A data set
of files that may be sharded by file is left to `experimental_distribute_dataset`, which saves reading all of it on
each worker.
"""

from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.keras.replica_step import examples_in
from tfdist_trainer.upstream.dataset_graph import reads_files
from tfdist_trainer.upstream.strategy_worker import Worker

_BY_FILE: Final = (tf.data.experimental.AutoShardPolicy.AUTO, tf.data.experimental.AutoShardPolicy.FILE)
_BY_ROW: Final = (tf.data.experimental.AutoShardPolicy.AUTO, tf.data.experimental.AutoShardPolicy.DATA)


def takes_rows(dataset: Any, worker: Worker, *, ordered: bool) -> bool:
    """Return whether each worker takes its rows of each batch of `dataset`.

    Args:
        dataset: global batches; or a data set that the script has distributed.
        worker: of this worker.
        ordered: whether the order of the rows matters, as in `predict`.
    """
    if not isinstance(dataset, tf.data.Dataset) or worker.replicas_per_worker > 1:
        return False
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if ordered:
        return policy in _BY_ROW or policy in _BY_FILE
    return policy in _BY_ROW and not (policy in _BY_FILE and reads_files(dataset))


def rows_of_worker(dataset: tf.data.Dataset, worker: Worker) -> tf.data.Dataset:
    """Return the rows of each batch of `dataset` that this worker takes; they differ by at most one between workers."""

    @do_not_convert
    def rows(*batch: Any) -> Any:
        size = examples_in(batch)
        start, stop = (size * (worker.index + end) // worker.count for end in (0, 1))
        local_rows = tf.nest.map_structure(lambda part: _slice(part, start, stop), batch)
        # A tuple is passed as several arguments, also one of a single element, which must stay one.
        return local_rows if type(dataset.element_spec) is tuple else local_rows[0]

    local = dataset.map(rows)
    return local.prefetch(2) if dataset.options().autotune.enabled is not False else local


def may_be_empty(dataset: Any, worker: Worker, smallest: int | None) -> bool:
    """Return whether a replica may get a batch without examples; `smallest` has the rows of a batch, if known."""
    if smallest is not None:
        return smallest < worker.replicas
    if not isinstance(dataset, tf.data.Dataset):
        return True
    sizes = [spec.shape[0] for spec in tf.nest.flatten(dataset.element_spec) if _has_rows(spec)]
    return any(size is None or size < worker.replicas for size in sizes)


def _has_rows(spec: Any) -> bool:
    return getattr(spec, "shape", None) is not None and spec.shape.rank not in {None, 0}


def _slice(part: Any, start: tf.Tensor, stop: tf.Tensor) -> Any:
    if isinstance(part, tf.experimental.Optional) or getattr(part, "shape", None) == ():
        return part
    if isinstance(part, tf.SparseTensor):
        begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(part.dense_shape[1:])], axis=0)
        size = tf.concat([[tf.cast(stop - start, tf.int64)], part.dense_shape[1:]], axis=0)
        return tf.sparse.slice(part, begin, size)
    return part[start:stop]
