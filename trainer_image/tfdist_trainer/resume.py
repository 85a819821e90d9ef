"""Resumes the data cursor of a checkpoint when the gang, its data or the metrics have changed since."""

from typing import Final

from tfdist_trainer import log
from tfdist_trainer.checkpoint import DataCursor
from tfdist_trainer.metrics.collection import MetricCollection

_GANG: Final = 2
"""The first numbers of a sharding signature: batch size and number of replicas."""


def resume_cursor(
    cursor: DataCursor, sharding_signature: tuple[int, ...], sums: MetricCollection, *, by_index: bool
) -> DataCursor:
    """Return the cursor from which training continues.

    Args:
        cursor: the cursor in the checkpoint.
        sharding_signature: the current one, see `DataCursor.sharding_signature`. If it differs, the epoch starts
            again: `step_in_epoch` would no longer name the same examples.
        sums: the current metrics. Sums of metrics that the checkpoint lacks start at zero.
        by_index: whether examples are read by index. Then `examples_in_epoch` names the same examples for any gang, and
            the epoch starts again only if their number, their order or the way of reading them has changed.
    """
    zeros = tuple(sums.zeros())
    first = _GANG if by_index and cursor.metrics else 0
    if cursor.step_in_epoch and cursor.sharding_signature[first:] != sharding_signature[first:]:
        reason = "the number of replicas, the data, or the order of the examples has changed"
        log.event("epoch-restarted", epoch=cursor.epoch + 1, reason=reason)
        return cursor.model_copy(update={"step_in_epoch": 0, "metric_sums": zeros})
    if cursor.step_in_epoch and cursor.sharding_signature != sharding_signature:
        log.event(
            "epoch-continued", epoch=cursor.epoch + 1, examples=cursor.examples_in_epoch, of=sharding_signature[_GANG]
        )
    if cursor.metrics == sums.sizes:
        return cursor
    if not cursor.step_in_epoch or not cursor.metrics:
        return cursor.model_copy(update={"metric_sums": zeros})
    new = [metric[0] for metric in sums.sizes if metric not in cursor.metrics]
    log.event("metrics-changed", new=",".join(new) or None, reason="new metrics cover only the rest of this epoch")
    return cursor.model_copy(update={"metric_sums": tuple(sums.restore_sums(cursor.metric_sums, cursor.metrics))})
