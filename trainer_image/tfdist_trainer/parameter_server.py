"""The chief of an asynchronous gang: it has workers compute steps, each at its own pace, on variables kept by ps.

`tf.distribute.ParameterServerStrategy` places the variables on the parameter servers in turn, and
`ClusterCoordinator` hands chunks of steps to whichever worker is free. One that is lost has its chunk done by
another, and takes part again when it is back. A step sees variables that others are changing: the number of
examples is exact, the order is not, and a chunk that was lost half-way is partly done twice.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.context import Context
from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.data.pipeline import EpochRange, steps_needed, stream
from tfdist_trainer.errors import DataMissingError
from tfdist_trainer.input_pipeline import InputPipeline, open_input_pipeline
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.loop import Training
from tfdist_trainer.program_model import new_state
from tfdist_trainer.state import State
from tfdist_trainer.step import StepOptions, StepStats, TrainStep
from tfdist_trainer.strategies.servers import shut_down_servers
from tfdist_trainer.upstream.coordinator import per_worker_iterator

SHARES: Final = 4
"""Parts of a chunk for each worker: small enough that a slow worker holds the others up little at its end."""


def train(context: Context) -> None:
    """Train with the workers of this gang; as `loop.train`, whose errors it raises."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(context.gang.strategy)
    examples = context.program.examples(Split.TRAIN, context.shard)
    pipeline = open_input_pipeline(context.gang, examples, context.config, "training.config.data.train")
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


class AsynchronousTraining(Training):
    """Training whose steps are taken by workers, each on a part of the examples, over and over until all are done."""

    def __init__(self, context: Context, pipeline: InputPipeline, state: State, coordinator: Any) -> None:
        super().__init__(context, pipeline, state)
        self._coordinator = coordinator

    def _start_iterator(self) -> None:
        """Start an iterator on every worker, of batches of its part in an order of its own, without an end.

        Raises:
            DataMissingError: there are fewer examples than workers.
        """
        self._iterator = per_worker_iterator(self._coordinator, self._dataset_of)

    def _dataset_of(self, worker: int, workers: int) -> tf.data.Dataset:
        """Return the endless batches of a worker's part, from the current epoch on."""
        examples = self._context.program.examples(Split.TRAIN, Shard(worker, workers))
        if not examples.count:
            total = sum(self._input.counts)
            raise DataMissingError(f"training.config.data.train: {total} examples are too few for {workers} workers")
        size = self._input.batch_size
        endless = range(self._cursor.epoch, 2**31 - 1)
        epoch_range = EpochRange(batches=steps_needed([examples.count], size, 1), epochs=endless)
        return stream(examples, epoch_range, batch_size=size, seed=self._context.seed)

    def _new_steps(self, options: StepOptions) -> TrainStep:
        return ScheduledSteps(self._coordinator, self._context, self._state, options)


class ScheduledSteps(TrainStep):
    """Computes chunks of steps on whichever workers are free."""

    def __init__(self, coordinator: Any, context: Context, state: State, options: StepOptions) -> None:
        super().__init__(context.gang, context.program, state.model, state.optimizer, options)
        self._coordinator = coordinator
        self._workers = len(context.member.cluster["worker"])

    def run(self, iterator: Any, steps: int) -> StepStats:
        """Take `steps` steps in parts, and return when all are done; the waits for input are added up."""
        parts = min(steps, SHARES * self._workers)
        sizes = [steps // parts + (index < steps % parts) for index in range(parts)]
        values = [self._coordinator.schedule(self.graph, args=(iterator, tf.constant(size))) for size in sizes]
        self._coordinator.join()
        parts_stats = [StepStats(*value.fetch()) for value in values]
        return StepStats(
            sums=np.sum([stats.sums for stats in parts_stats], axis=0),
            gradient_norm=parts_stats[-1].gradient_norm,
            not_finite=sum(int(stats.not_finite) for stats in parts_stats),
            done=sum(int(stats.done) for stats in parts_stats),
            input_wait=sum(float(stats.input_wait) for stats in parts_stats) / self._workers,
        )
