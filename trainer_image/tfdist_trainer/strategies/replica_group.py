"""One member's view of its gang: the strategy, and collectives of a few host values.

All members must call a collective method, in the same order; else all wait.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer.autograph import graph
from tfdist_trainer.environment import GangMember


class HostCollectives:
    """Collectives of a few host values among the members of a strategy."""

    def __init__(self, strategy: tf.distribute.Strategy, rank: int, size: int) -> None:
        """Join as the member with this `rank`, from 0, of `size` members."""
        self.strategy = strategy
        self.replicas: int = strategy.num_replicas_in_sync
        """Replicas of the whole gang; one for each accelerator, or one for each member without any."""
        self.replicas_per_member = self.replicas // size
        self.rank, self._size = rank, size
        # Of any length: a graph for each would be traced before the first step, and the others wait for the slowest.
        self._add = graph(self._add_in_graph, input_signature=[tf.TensorSpec([None], tf.float64)])

    def all_reduce_sum(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the sum over all members of `values`, float64 [n]; all members pass equally many."""
        local = np.asarray(values, np.float64)
        if self._size == 1:
            return local
        reduced: npt.NDArray[np.float64] = self._add(tf.constant(local / self.replicas_per_member)).numpy()
        return reduced

    def wait_for_all(self) -> None:
        """Return when all members have called this; a collective.

        A member that exits breaks the connections of the others: the chief may still wait for the last values of a
        collective before it saves.
        """
        self.all_reduce_sum([0.0])

    def all_gather(self, value: float) -> list[float]:
        """Return each member's `value` in order of rank."""
        return [float(row[0]) for row in self.gather_rows(value)]

    def gather_rows(self, *values: float) -> npt.NDArray[np.float64]:
        """Return the `values` of each member in order of rank, float64 [members, values]."""
        rows = np.zeros([self._size, len(values)])
        rows[self.rank] = values
        return self.all_reduce_sum(rows.ravel()).reshape(rows.shape)

    def broadcast_from_chief(self, value: float) -> float:
        """Return the chief's `value`; what the others pass is ignored."""
        return float(self.all_reduce_sum([value if self.rank == 0 else 0.0])[0])

    def local(self, per_replica: Any) -> Any:
        """Return the first local replica's value of a result that is equal on all replicas."""
        return self.strategy.experimental_local_results(per_replica)[0]

    def _add_in_graph(self, vector: tf.Tensor) -> tf.Tensor:
        def add() -> tf.Tensor:
            # The identity puts the argument on the replica's device, without which the reduction has none.
            local = tf.identity(vector)
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, local)

        return self.local(self.strategy.run(add))


class ReplicaGroup(HostCollectives):
    """The strategy of one member, and the collectives of host values outside of training steps."""

    def __init__(self, member: GangMember, strategy: tf.distribute.Strategy) -> None:
        super().__init__(strategy, member.rank, member.size)
        self.member = member
        self.computes_on_one_cpu = self.replicas_per_member == 1 and not tf.config.list_logical_devices("GPU")
        """Whether this member has one replica, without an accelerator."""
