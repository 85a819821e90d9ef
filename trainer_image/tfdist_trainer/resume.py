"""Where a training goes on whose gang, data or metrics have changed since its checkpoint was written."""

from tfdist_trainer import log
from tfdist_trainer.checkpoint import Position
from tfdist_trainer.metrics.sums import SumsOf


def taken_up(at: Position, layout: tuple[int, ...], sums: SumsOf) -> Position:
    """Return where to go on from the position of a checkpoint.

    Args:
        at: where the checkpoint was written.
        layout: the batch size, the number of replicas, and how many examples each member has, as they are now.
        sums: the sums of the metrics as they are now.
    """
    zeros = tuple(sums.zeros())
    if at.step_in_epoch and at.layout != layout:
        log.event("epoch-restarted", epoch=at.epoch + 1, reason="the gang or its data has changed since")
        return at.model_copy(update={"step_in_epoch": 0, "metric_sums": zeros})
    if at.metrics == sums.sizes:
        return at
    if not at.step_in_epoch or not at.metrics:
        return at.model_copy(update={"metric_sums": zeros})
    new = [metric[0] for metric in sums.sizes if metric not in at.metrics]
    log.event("metrics-changed", new=",".join(new) or None, reason="those are of the rest of this epoch alone")
    return at.model_copy(update={"metric_sums": tuple(sums.taken_over(at.metric_sums, at.metrics))})
