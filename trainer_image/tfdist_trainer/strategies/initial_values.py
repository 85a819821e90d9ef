"""Broadcasts the chief's initial values of many variables together.

`MultiWorkerMirroredStrategy` broadcasts the initial value of each variable while it creates the variable, one after the
other (`tensorflow/python/distribute/collective_all_reduce_strategy.py`), except with `local_initial_values`. Most
starts need none of them, because a checkpoint replaces them all; the first start needs a few collectives instead of
one for each variable.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.autograph import graph
from tfdist_trainer.strategies.reduction import all_reduce_sum
from tfdist_trainer.strategies.replica_group import ReplicaGroup

PACK_BYTES: Final = 1 << 24
"""Approximate size of one collective; its values are in memory three times meanwhile."""


def broadcast(gang: ReplicaGroup, variables: Iterable[Any]) -> None:
    """Set `variables` on all replicas to the values on the chief's first replica; a collective."""
    for pack in _packs(variables):
        graph(_broadcast_in_graph)(gang, pack)


def _broadcast_in_graph(gang: ReplicaGroup, variables: Sequence[Any]) -> None:
    def replica() -> None:
        sends = tf.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
        # Through its handle: a variable with an aggregation would be reduced once more when it is assigned to.
        values = [tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=v.dtype) for v in variables]
        # Not a product with 0, which would make infinity a NaN.
        values = [tf.where(sends, value, tf.zeros_like(value)) for value in values]
        for variable, value in zip(variables, all_reduce_sum(values, gang.replicas), strict=True):
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)

    gang.strategy.run(replica)


def _packs(variables: Iterable[Any]) -> Iterator[list[Any]]:
    pack: list[Any] = []
    size = 0
    for variable in variables:
        pack.append(variable)
        size += variable.shape.num_elements() * variable.dtype.size
        if size >= PACK_BYTES:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack
