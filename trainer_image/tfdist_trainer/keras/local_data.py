"""The data of one worker: its rows of each global batch, or its shard of the files.

All workers read the same data set of global batches, and each takes its rows: the first worker the first ones. So a
step sees the examples that it sees on one worker, all workers end together, and predictions are in order. A data set
of files that may be sharded by file is left to `experimental_distribute_dataset`, which saves reading all of it on
each worker.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.autograph import do_not_convert
from tfdist_trainer.keras.replica_step import examples_in
from tfdist_trainer.keras.rows_check import RowsCheck, has_rows
from tfdist_trainer.keras.same_data import FirstBatch
from tfdist_trainer.upstream.dataset_graph import reads_files, zipped_batches
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
    # Several replicas of one worker need TensorFlow's own distribution.
    if not isinstance(dataset, tf.data.Dataset) or worker.replicas_per_worker > 1:
        return False
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if ordered:
        return policy in _BY_ROW or policy in _BY_FILE
    # Reading all files on each worker costs more than the calls that blocks save (ADR 33).
    return policy in _BY_ROW and not (policy in _BY_FILE and reads_files(dataset))


def warn_about_unused_rows(dataset: tf.data.Dataset) -> None:
    """Log that workers use a part only of a `dataset` with `AutoShardPolicy.OFF`, as a script that shards it may set.

    TensorFlow makes several batches of each one, as if it were a global batch, and an epoch has no more steps for them.
    """
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy == tf.data.experimental.AutoShardPolicy.OFF and dataset.cardinality() >= 0:
        log.event(
            "rows-unused",
            reason="with AutoShardPolicy.OFF an epoch ends before all parts of the batches that TensorFlow splits",
            remedy="strategy.distribute_datasets_from_function, with the shard and the batch size of each worker",
        )


class LocalRows(NamedTuple):
    """What this worker computes of a global batch."""

    rows: Any
    """A batch that is never empty: a worker without rows gets one, of another worker, which does not count."""
    examples: Any
    """Rows that count, int32 []."""
    size: Any
    """Rows of the global batch, int32 []."""


def worker_rows(dataset: tf.data.Dataset, worker: Worker, first: FirstBatch) -> tf.data.Dataset:
    """Return a data set of `LocalRows`, of each batch of `dataset`; they differ by at most one between workers.

    The `first` global batch is observed while it is read.

    Raises:
        ValueError: zipped batches have different sizes, and the first one fewer rows than there are workers.
    """
    check = RowsCheck(dataset.element_spec, zipped_batches(dataset), worker.count)

    @do_not_convert
    def rows(number: tf.Tensor, batch: Any) -> LocalRows:
        # First: a part with other rows would be cut at a wrong place.
        check(batch)
        first.observe(number, batch)
        size = examples_in(batch)
        start, stop = _range(size, worker)
        return LocalRows(tf.nest.map_structure(lambda part: _rows_of(part, worker), batch), stop - start, size)

    # The number tells the first batch, whose fingerprint is taken.
    local = dataset.enumerate().map(rows)
    return local.prefetch(2) if dataset.options().autotune.enabled is not False else local


def drop_uncounted_predictions(predict: Callable[[list[Any]], Any], worker: Worker) -> Callable[[list[Any]], Any]:
    """Return Keras' function that predicts some batches by all workers, without the rows that do not count."""

    def predictions(batches: list[Any]) -> Any:
        if not all(isinstance(each, LocalRows) for each in batches):
            return predict(batches)
        # A worker without rows computes one row, which is cut off here.
        outputs = predict([each.rows for each in batches])
        counts = np.concatenate([_count(int(each.size), worker.count) for each in batches])
        if counts.all():
            return outputs
        return tf.nest.map_structure(
            lambda each: tf.boolean_mask(each, counts) if each.shape[0] == len(counts) else each, outputs
        )

    return predictions


def _count(size: int, workers: int) -> npt.NDArray[np.bool_]:
    """Return which of the rows that all `workers` compute of a global batch of `size` rows count, in order of rank."""
    if size >= workers:
        return np.ones(size, np.bool_)
    return np.diff(size * np.arange(workers + 1) // workers) > 0


def with_a_row(batch: Any, *, may_be_empty: bool) -> tuple[Any, tf.Tensor]:
    """Return a local batch without 0 rows, which it `may_be_empty`, and how many of its rows count, int32 [].

    TensorFlow gives a worker whose files have ended a batch without rows: it gets one of zeros.
    """
    if isinstance(batch, LocalRows):
        return batch.rows, batch.examples
    examples = examples_in(batch)
    if not may_be_empty:
        return batch, examples

    def filled(part: Any) -> Any:
        if not isinstance(part, tf.Tensor) or part.shape.rank in {None, 0} or part.shape[0]:
            return part
        one = tf.concat([[1], tf.shape(part)[1:]], axis=0)
        # Operations on 0 rows fail or have a wrong shape, such as oneDNN's convolution.
        result = tf.cond(examples > 0, lambda: part, lambda: tf.zeros(one, part.dtype))
        return tf.ensure_shape(result, [None, *part.shape[1:]])

    return tf.nest.map_structure(filled, batch), examples


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


def _range(size: tf.Tensor, worker: Worker) -> tuple[tf.Tensor, tf.Tensor]:
    start, stop = (size * (worker.index + end) // worker.count for end in (0, 1))
    return start, stop


def _rows_of(part: Any, worker: Worker) -> Any:
    """Return the rows of `part` that this worker computes, at least one."""
    if not has_rows(part):
        return part
    size = examples_in(part)
    start, stop = _range(size, worker)
    # A worker without rows takes its neighbour's: real values, which do not count.
    begin = tf.where(stop > start, start, tf.maximum(0, start - 1))
    return _slice(part, begin, tf.maximum(stop, tf.minimum(begin + 1, size)))


def _slice(part: Any, start: tf.Tensor, stop: tf.Tensor) -> Any:
    if isinstance(part, tf.SparseTensor):
        begin = tf.concat([[tf.cast(start, tf.int64)], tf.zeros_like(part.dense_shape[1:])], axis=0)
        size = tf.concat([[tf.cast(stop - start, tf.int64)], part.dense_shape[1:]], axis=0)
        return tf.sparse.slice(part, begin, size)
    return part[start:stop]
