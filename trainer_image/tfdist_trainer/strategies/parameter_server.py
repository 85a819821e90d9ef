"""The chief of an asynchronous gang: it has workers compute steps, each at its own pace, on variables kept by ps.

`tf.distribute.ParameterServerStrategy` places the variables on the parameter servers in turn, and
`ClusterCoordinator` hands chunks of steps to whichever worker is free. One that is lost has its chunk done by
another, and takes part again when it is back. A step sees variables that others are changing: the number of
examples is exact, the order is not, and a chunk that was lost half-way is partly done twice.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.context import Context, InputPipeline, input_pipeline_of
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import EpochRange, steps_needed, stream
from tfdist_trainer.environment import Member
from tfdist_trainer.errors import DataMissingError, one_line
from tfdist_trainer.loop import StepRunner, Training
from tfdist_trainer.state import State, new_state
from tfdist_trainer.step import StepOptions, StepStats, raw
from tfdist_trainer.strategies.peers import wait_until_listening
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.strategies.servers import shutdown_marker
from tfdist_trainer.upstream.coordinator import per_worker_iterator

SHARES: Final = 4
"""Parts of a chunk for each worker: small enough that a slow worker holds the others up little at its end."""

SHUTDOWN_SECONDS: Final = 10.0
"""How long the chief tries to shut the servers down; a server that it cannot reach has ended."""


def join(member: Member, min_shard_bytes: int | None) -> ReplicaGroup:
    """Return the gang of the chief, after every server has begun to listen.

    With `min_shard_bytes` variables are divided over the ps, into shards of at least so many.

    Raises:
        PeerLostError: a server did not come.
    """
    others = [place for role in ("worker", "ps") for place in member.cluster[role]]
    wait_until_listening(others, lambda text: log.event("waiting", message=text))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    partitioner = None
    if min_shard_bytes is not None:
        most = len(member.cluster["ps"])
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes, max_shards=most)
    return ReplicaGroup(member, tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner))


def train(context: Context) -> None:
    """Train with the workers of this gang; as `loop.train`, whose errors it raises."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(context.gang.strategy)
    examples = context.program.examples(Split.TRAIN, context.shard)
    base = input_pipeline_of(context, examples, "training.config.data.train")
    pipeline = WorkerInputPipeline(base.gang, examples, base.batch_size, base.counts, context, coordinator)
    state = new_state(context)
    log.event("variable-placement", **variable_placement(state.model.variables))
    AsynchronousTraining(context, pipeline, state, coordinator).run()
    shut_down_servers(context.member)


def variable_placement(variables: Iterable[Any]) -> dict[str, int]:
    """Return how many bytes of the model's `variables` each parameter server keeps, and how many are shards."""
    found = Counter({"shards": 0})
    for variable in map(raw, variables):
        device = tf.DeviceSpec.from_string(variable.device)
        found[f"{device.job}-{device.task}"] += variable.shape.num_elements() * variable.dtype.size
        found["shards"] += "/part_" in variable.name
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class WorkerInputPipeline(InputPipeline):
    """Examples that the workers read, each a part of its own, over and over for as long as there are steps to take."""

    context: Context
    coordinator: Any

    def iterator(self, seed: int | None, epochs: range, skip_steps: int = 0) -> object:  # noqa: ARG002  no order to keep
        """Return an iterator on every worker, of batches of its part in an order of its own, without an end.

        Raises:
            DataMissingError: there are fewer examples than workers.
        """

        def dataset_of(worker: int, workers: int) -> tf.data.Dataset:
            return self._dataset(Shard(worker, workers), seed, epochs.start)

        return per_worker_iterator(self.coordinator, dataset_of)

    def _dataset(self, shard: Shard, seed: int | None, first_epoch: int) -> tf.data.Dataset:
        """Return the endless batches of `shard`."""
        examples = self.context.program.examples(Split.TRAIN, shard)
        if not examples.count:
            raise DataMissingError(
                f"training.config.data.train: {sum(self.counts)} examples are too few for {shard.count} workers"
            )
        batches = steps_needed([examples.count], self.batch_size, 1)
        endless = range(first_epoch, 2**31 - 1)
        return stream(examples, EpochRange(batches=batches, epochs=endless), batch_size=self.batch_size, seed=seed)


class AsynchronousTraining(Training):
    """Training whose steps are taken by workers."""

    def __init__(self, context: Context, pipeline: InputPipeline, state: State, coordinator: Any) -> None:
        super().__init__(context, pipeline, state)
        self._coordinator = coordinator

    def _new_steps(self, options: StepOptions) -> StepRunner:
        return ScheduledSteps(self._coordinator, super()._new_steps(options), len(self._gang.member.cluster["worker"]))


class ScheduledSteps:
    """Computes chunks of steps on whichever workers are free."""

    def __init__(self, coordinator: Any, steps: Any, workers: int) -> None:
        self._coordinator = coordinator
        self._graph = steps.graph
        self._workers = workers

    def run(self, iterator: Any, steps: int) -> StepStats:
        """Take `steps` steps in parts, and return when all are done; the waits for input are added up."""
        parts = min(steps, SHARES * self._workers)
        sizes = [steps // parts + (index < steps % parts) for index in range(parts)]
        values = [self._coordinator.schedule(self._graph, args=(iterator, tf.constant(size))) for size in sizes]
        self._coordinator.join()
        parts_stats = [StepStats(*value.fetch()) for value in values]
        return StepStats(
            sums=np.sum([stats.sums for stats in parts_stats], axis=0),
            gradient_norm=parts_stats[-1].gradient_norm,
            not_finite=sum(int(stats.not_finite) for stats in parts_stats),
            done=sum(int(stats.done) for stats in parts_stats),
            input_wait=sum(float(stats.input_wait) for stats in parts_stats) / self._workers,
        )


def shut_down_servers(member: Member) -> None:
    """Shut every server down; the controller deletes those that cannot be reached in time."""
    servers = [(role, index) for role in ("worker", "ps") for index in range(len(member.cluster[role]))]
    threads = [threading.Thread(target=_shut_down, args=(member, *server), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _shut_down(member: Member, role: str, index: int) -> None:
    try:
        with tf.device(f"/job:{role}/replica:0/task:{index}/device:CPU:0"):
            tf.io.write_file(str(shutdown_marker(member, role, index)), "done")
    except tf.errors.OpError as error:
        log.event("shutdown-not-acknowledged", role=role, index=index, reason=one_line(error.message)[:200])
