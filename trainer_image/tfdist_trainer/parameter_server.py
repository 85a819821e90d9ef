"""The chief of an asynchronous gang: it has workers compute steps, each at its own pace, on variables kept by ps.

`tf.distribute.ParameterServerStrategy` places the variables on the parameter servers in turn, and
`ClusterCoordinator` gives closures of several steps to whichever worker is free (`closures`). The closure of a lost
worker is computed by another, and the worker receives closures again when it reconnects. A step sees variables that
others are changing: the number of examples is exact, the order is not, and a closure that was lost half-way is partly
computed twice.
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfdist.contract_reports import SlowReplica
from tfdist_trainer import log
from tfdist_trainer.closure_times import ClosureTimes
from tfdist_trainer.closures import PER_WORKER, Closure, ClosureQueue, FinishedClosure, add_stats
from tfdist_trainer.context import Context
from tfdist_trainer.data.pipeline import ExampleSource
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.input_pipeline import InputPipeline, open_input_pipeline
from tfdist_trainer.keras_compat import raw
from tfdist_trainer.loop import TrainingLoop
from tfdist_trainer.loop_decision import LoopDecision
from tfdist_trainer.program_model import new_state
from tfdist_trainer.state import State
from tfdist_trainer.step import StepStats
from tfdist_trainer.strategies.servers import shut_down_servers
from tfdist_trainer.upstream.coordinator import DatasetTooLargeError, per_worker_iterator
from tfdist_trainer.worker_input import FIELD, all_workers_source, full_batches, worker_examples


def train(context: Context) -> None:
    """Train with the workers of this gang; as `loop.train`, whose errors it raises."""
    coordinator = tf.distribute.coordinator.ClusterCoordinator(context.gang.strategy)
    sources = worker_examples(context.program, len(context.member.cluster["worker"]))
    # The chief counts the steps of all workers.
    pipeline = open_input_pipeline(context.gang, all_workers_source(sources), context.config, FIELD)
    state = new_state(context)
    log.event("variable-placement", **variable_placement(state.model.variables))
    AsynchronousTrainingLoop(context, pipeline, state, coordinator, sources).run()
    # Servers cannot tell the end of training from a chief that restarts.
    shut_down_servers(context.member)


def variable_placement(variables: Iterable[Any]) -> dict[str, int]:
    """Return how many bytes of the model's `variables` each parameter server keeps, and how many are shards."""
    placement = Counter({"shards": 0})
    for variable in map(raw, variables):
        device = tf.DeviceSpec.from_string(variable.device)
        placement[f"{device.job}-{device.task}"] += variable.shape.num_elements() * variable.dtype.size
        placement["shards"] += "/part_" in variable.name
    return dict(sorted(placement.items()))


class AsynchronousTrainingLoop(TrainingLoop):
    """Training whose steps are taken by workers, each on a part of the examples, repeatedly until all are finished.

    Closures are scheduled ahead of the data cursor, which counts finished steps; the chief waits for all of them only
    to save, to stop and at the end, or in each execution if there is a profile.

    Args:
        context: of the chief.
        pipeline: the number of the examples of all workers.
        state: model and optimizer.
        coordinator: `tf.distribute.coordinator.ClusterCoordinator`.
        sources: the examples of each worker.
    """

    def __init__(
        self,
        context: Context,
        pipeline: InputPipeline,
        state: State,
        coordinator: Any,
        sources: Sequence[ExampleSource],
    ) -> None:
        super().__init__(context, pipeline, state)
        self._coordinator = coordinator
        self._sources = sources
        self._workers = len(sources)
        self._ahead = self._cursor
        """The data cursor after all scheduled closures; only its step and epoch are kept."""
        self._closure_times = ClosureTimes(self._workers)
        self._uncounted: list[FinishedClosure] = []
        """Finished closures of later epochs than the current one."""
        self._counted_at = 0.0

    def _start_iterator(self) -> None:
        """Start an iterator on every worker, of full batches of its part in a separate order, without an end.

        Raises:
            ConfigurationError: the examples are in memory, and too large to be sent to a worker.
        """
        cursor = self._ahead = self._cursor

        def dataset_of(worker: int, workers: int) -> tf.data.Dataset:
            # About right: which worker took which steps is not recorded.
            skip = cursor.step_in_epoch // workers
            size, seed = self._input.batch_size, self._context.seed
            return full_batches(self._sources[worker], batch_size=size, seed=seed, epoch=cursor.epoch, skip_steps=skip)

        try:
            iterator = per_worker_iterator(self._coordinator, dataset_of)
        except DatasetTooLargeError as error:
            raise ConfigurationError(
                f"{FIELD}: the examples of worker-{error.worker} are more than 2 GB in memory, which parameter servers "
                "cannot send to it; write TFRecord files, which each worker reads itself, or add workers"
            ) from None
        steps, timed = self._steps_of(compiled=False).graph, not self._context.settings.deterministic
        self._closures = ClosureQueue(self._coordinator, steps, iterator, timed=timed)

    def _epoch(self) -> None:
        """Save or stop if decided, then count finished closures of the current epoch."""
        decision = self._decide()
        if decision.save or decision.stop_early or (decision.stop and self._saver.can_save):
            # A checkpoint must not lack steps that are in flight, nor have half of them.
            self._drain()
        self._save_or_stop(decision)
        if not self._stopped_early:
            self._execute(decision)

    def _decide(self) -> LoopDecision:
        """Decide alone, since the workers decide nothing; `steps` are those up to the next wait for all closures."""
        cursor = self._cursor
        remaining = self._total_steps - cursor.step
        steps = min(remaining, self._saver.steps_to_save(cursor, self._input.steps) or remaining)
        if self._config.profile is not None:
            longest = PER_WORKER * self._workers * self._tuner.steps
            steps = self._summaries.limit(cursor.step, min(steps, longest))
        return LoopDecision(
            steps=steps,
            save=self._saver.is_due(cursor),
            stop=self._context.preemption.is_requested,
            stop_early=bool(self._saver.early_stop_reason(cursor.step)),
        )

    def _execute(self, decision: LoopDecision) -> None:
        """Keep closures in flight, none beyond the steps decided on, and count some; all of them if profiled."""
        until = self._cursor.step + decision.steps
        if self._config.profile is None:
            self._count(until)
            return
        with self._summaries.profile_steps(self._cursor.step, decision.steps):
            while self._cursor.step < until:
                self._count(until)

    def _drain(self) -> None:
        """Count all closures that are scheduled."""
        while self._cursor.step < self._ahead.step:
            self._count(until=self._ahead.step)

    def _count(self, until: int) -> None:
        """Wait for as many closures as there are workers, fewer at the end of the epoch; count and report them.

        Closures are scheduled up to the step `until`.
        """
        # Nothing was computed while nothing was in flight.
        if not self._closures.in_flight:
            self._counted_at = time.monotonic()
        parts, finished = list[StepStats](), 0
        remaining = min(self._input.steps - self._cursor.step_in_epoch, until - self._cursor.step)
        while len(parts) < self._workers and finished < remaining:
            parts.append(self._next(until))
            finished += int(parts[-1].done)
            # The error is raised at the step at which it happened.
            if parts[-1].not_finite:
                break
        stats = add_stats(parts, self._workers)
        started, self._counted_at = self._counted_at, time.monotonic()
        seconds = self._counted_at - started
        self._tuner.observe(int(stats.done), seconds * self._workers)
        self._record(stats, seconds)
        self._end_epoch()

    def _slow_replica(self) -> SlowReplica | None:
        """Return the slow worker."""
        return self._closure_times.slow_replica()

    def _next(self, until: int) -> StepStats:
        """Return the statistics of the next finished closure of the current epoch."""
        for index, finished in enumerate(self._uncounted):
            # Closures of the next epoch may end before the last one of this epoch.
            if finished.closure.epoch == self._cursor.epoch:
                del self._uncounted[index]
                return finished.stats
        while True:
            self._schedule(until)
            finished = self._closures.next_finished()
            stats = finished.stats
            self._closure_times.observe(finished.worker, int(stats.done), finished.seconds, float(stats.input_wait))
            if finished.closure.epoch == self._cursor.epoch:
                return stats
            self._uncounted.append(finished)

    def _schedule(self, until: int) -> None:
        """Schedule closures until enough are in flight, or all up to the step `until`.

        They become shorter towards `until`, so that the workers finish at nearly the same time.
        """
        max_in_flight = PER_WORKER * self._workers
        size, remainder = self._input.batch_size, sum(self._input.counts) % self._input.batch_size
        while self._closures.in_flight < max_in_flight and self._ahead.step < until:
            ahead = self._ahead
            remaining = self._input.steps - ahead.step_in_epoch
            # Shorter towards the end, so that the workers finish together.
            steps = min(self._tuner.steps, -(-(until - ahead.step) // max_in_flight), remaining)
            ends_epoch = steps == remaining
            self._closures.schedule(Closure(ahead.epoch, steps, remainder if ends_epoch and remainder else size))
            self._ahead = ahead.model_copy(
                update={
                    "step": ahead.step + steps,
                    "epoch": ahead.epoch + ends_epoch,
                    "step_in_epoch": 0 if ends_epoch else ahead.step_in_epoch + steps,
                }
            )
