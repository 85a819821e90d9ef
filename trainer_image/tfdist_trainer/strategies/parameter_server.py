"""The chief of an asynchronous gang: it has workers compute steps, each at its own pace, on variables kept by ps.

`tf.distribute.ParameterServerStrategy` places the variables on the parameter servers in turn, and
`ClusterCoordinator` hands chunks of steps to whichever worker is free. One that is lost has its chunk done by
another, and takes part again when it is back. A step sees variables that others are changing: the number of
examples is exact, the order is not, and a chunk that was lost half-way is partly done twice.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute import input_lib
from tensorflow.python.distribute.coordinator import values as coordinator_values

from tfdist_trainer import log
from tfdist_trainer.context import Context, Supply, supply_of
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import Stretch, steps_needed, stream
from tfdist_trainer.environment import Member
from tfdist_trainer.errors import DataMissingError, one_line
from tfdist_trainer.loop import Steps, Training
from tfdist_trainer.state import State, new_state
from tfdist_trainer.step import Outcome, StepOptions, raw
from tfdist_trainer.strategies.gang import Gang
from tfdist_trainer.strategies.names import wait_for_servers
from tfdist_trainer.strategies.servers import done_path

SHARES: Final = 4
"""Parts of a chunk for each worker: small enough that a slow worker holds the others up little at its end."""

FAREWELL_SECONDS: Final = 10.0
"""How long the chief tries to tell the servers that training is done; those it cannot reach are gone."""


def join(member: Member, min_shard_bytes: int | None) -> Gang:
    """Return the gang of the chief, after every server has begun to listen.

    With `min_shard_bytes` variables are divided over the ps, into shards of at least so many.

    Raises:
        PeerLostError: a server did not come.
    """
    others = [place for role in ("worker", "ps") for place in member.cluster[role]]
    wait_for_servers(others, lambda text: log.event("waiting", message=text))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    partitioner = None
    if min_shard_bytes is not None:
        most = len(member.cluster["ps"])
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(min_shard_bytes, max_shards=most)
    return Gang(member, tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner))


def train(context: Context) -> None:
    """Train with the workers of this gang; as `loop.train`, whose errors it raises."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(context.gang.strategy)
    examples = context.program.examples(Split.TRAIN, context.shard)
    base = supply_of(context, examples, "training.config.data.train")
    supply = WorkerSupply(base.gang, examples, base.batch_size, base.counts, context, coordinator)
    state = new_state(context)
    log.event("placed", **placed(state.model.variables))
    AsynchronousTraining(context, supply, state, coordinator).run()
    farewell(context.member)


def placed(variables: Iterable[Any]) -> dict[str, int]:
    """Return how many bytes of the model's `variables` each parameter server keeps, and how many are shards."""
    found = Counter({"shards": 0})
    for variable in map(raw, variables):
        device = tf.DeviceSpec.from_string(variable.device)
        found[f"{device.job}-{device.task}"] += variable.shape.num_elements() * variable.dtype.size
        found["shards"] += "/part_" in variable.name
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class WorkerSupply(Supply):
    """Examples that the workers read, each a part of its own, over and over for as long as there are steps to take."""

    context: Context
    coordinator: Any

    def iterator(self, seed: int | None, epochs: range, skip_steps: int = 0) -> object:  # noqa: ARG002  no order to keep
        """Return an iterator on every worker, of batches of its part in an order of its own, without an end.

        Raises:
            DataMissingError: there are fewer examples than workers.
        """
        workers = self.coordinator._cluster.workers  # noqa: SLF001  the public way gives all the same data set
        values = []
        for index, worker in enumerate(workers):
            make, spec = self._part(Shard(index, len(workers)), seed, epochs.start)
            value = worker.create_resource(make)
            value._type_spec = spec  # noqa: SLF001  as TensorFlow's own PerWorkerDatasetFromDatasetFunction
            values.append(value)
        return coordinator_values.PerWorkerDistributedIterator(tuple(values))

    def _part(self, shard: Shard, seed: int | None, first_epoch: int) -> tuple[Callable[[], Any], Any]:
        """Return what makes the iterator of `shard` on its worker, and the type of it."""
        examples = self.context.program.examples(Split.TRAIN, shard)
        if not examples.count:
            raise DataMissingError(
                f"training.config.data.train: {sum(self.counts)} examples are too few for {shard.count} workers"
            )
        batches = steps_needed([examples.count], self.batch_size, 1)
        endless = range(first_epoch, 2**31 - 1)
        dataset = stream(examples, Stretch(batches=batches, epochs=endless), batch_size=self.batch_size, seed=seed)
        # As a graph, because the data set itself is an object of this process.
        graph = coordinator_values.serialize_dataset_to_graph(dataset)
        build = tf.function(
            lambda: coordinator_values.deserialize_dataset_from_graph(graph, dataset.element_spec)
        ).get_concrete_function()
        spec = input_lib.get_iterator_spec_from_dataset(self.gang.strategy, build.structured_outputs)
        return lambda: iter(build()), spec


class AsynchronousTraining(Training):
    """Training whose steps are taken by workers."""

    def __init__(self, context: Context, supply: Supply, state: State, coordinator: Any) -> None:
        super().__init__(context, supply, state)
        self._coordinator = coordinator

    def _new_steps(self, options: StepOptions) -> Steps:
        return ScheduledSteps(self._coordinator, super()._new_steps(options), len(self._gang.member.cluster["worker"]))


class ScheduledSteps:
    """Computes chunks of steps on whichever workers are free."""

    def __init__(self, coordinator: Any, steps: Any, workers: int) -> None:
        self._coordinator = coordinator
        self._graph = steps.graph
        self._workers = workers

    def run(self, iterator: Any, steps: int) -> Outcome:
        """Take `steps` steps in parts, and return when all are done; the waits for input are added up."""
        parts = min(steps, SHARES * self._workers)
        sizes = [steps // parts + (index < steps % parts) for index in range(parts)]
        values = [self._coordinator.schedule(self._graph, args=(iterator, tf.constant(size))) for size in sizes]
        self._coordinator.join()
        outcomes = [Outcome(*value.fetch()) for value in values]
        return Outcome(
            sums=np.sum([outcome.sums for outcome in outcomes], axis=0),
            gradient_norm=outcomes[-1].gradient_norm,
            not_finite=sum(int(outcome.not_finite) for outcome in outcomes),
            done=sum(int(outcome.done) for outcome in outcomes),
            input_wait=sum(float(outcome.input_wait) for outcome in outcomes) / self._workers,
        )


def farewell(member: Member) -> None:
    """Tell every server that training is done; those that cannot be reached in time are left to the controller."""
    servers = [(role, index) for role in ("worker", "ps") for index in range(len(member.cluster[role]))]
    threads = [threading.Thread(target=_tell, args=(member, *server), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + FAREWELL_SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _tell(member: Member, role: str, index: int) -> None:
    try:
        with tf.device(f"/job:{role}/replica:0/task:{index}/device:CPU:0"):
            tf.io.write_file(str(done_path(member, role, index)), "done")
    except tf.errors.OpError as error:
        log.event("farewell-unheard", role=role, index=index, reason=one_line(error.message)[:200])
