"""The configuration that every program has: duration, batch size and data order of training."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tfdist.programs.base import BrokenRule, StrictModel, exclusive


class Profile(StrictModel):
    """Steps to profile."""

    from_step: int = Field(default=100, ge=1)
    """First step to profile. By default, tracing and warm-up are over by then."""
    steps: int = Field(default=10, ge=1, le=1000)
    """Number of steps to profile."""


class ProgramConfig(StrictModel):
    """Duration, batch size and data order of training."""

    epochs: int = Field(default=1, ge=1)
    """Number of passes over the training data."""
    steps: int | None = Field(default=None, ge=1)
    """Number of training steps, instead of `epochs`."""
    batch_size_per_replica: int | None = Field(default=None, ge=1)
    """Examples per step on each replica. 128 if neither this nor `globalBatchSize` is set."""
    global_batch_size: int | None = Field(default=None, ge=1)
    """Examples per step over all replicas; must be a multiple of the number of replicas."""
    reference_batch_size: int | None = Field(default=None, ge=1)
    """The global batch size for which `learningRate` is tuned. With another global batch size the learning rate is
    scaled in proportion (linear scaling rule, Goyal et al., arXiv 1706.02677). Not scaled if absent."""
    learning_rate: float = Field(default=0.001, gt=0)
    """Learning rate of the optimizer. With a schedule it is the peak, after the warm-up."""
    seed: int = Field(default=0, ge=0, lt=2**31)
    """Random seed of the initial weights and of shuffling: equal seeds give equal training."""
    shuffle_buffer: int = Field(default=10_000, ge=0)
    """Size of the shuffle buffer of each worker, in examples. 0 or 1 disables shuffling. In-memory formats (`npz`,
    `csv`, `jsonl`, `parquet`, `idx`, TFRecord with `cache`) always use a full permutation otherwise."""
    non_finite_policy: Literal["Fail", "SkipStep"] = "Fail"
    """Behavior when the loss or a gradient is not finite. `Fail`: training fails, with the last good checkpoint.
    `SkipStep`: the step counts with a gradient of zero; this checks the gradients of every step, which slows down
    small models."""
    min_shard_bytes: int | None = Field(default=None, ge=1)
    """With strategy `ParameterServer`: shards variables over the parameter servers, with at least this size in bytes
    per shard. The model must then be of `tf_keras`. Variables are not sharded if absent."""
    profile: Profile | None = None
    """Steps to trace with the TensorBoard profiler. No trace if absent."""

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        if self.steps is not None and "epochs" in self.model_fields_set:
            yield exclusive("epochs", "steps")
        if self.batch_size_per_replica is not None and self.global_batch_size is not None:
            yield exclusive("globalBatchSize", "batchSizePerReplica")
