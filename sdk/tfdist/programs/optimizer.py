"""The configuration of the optimizer: learning-rate schedule, weight decay and gradient clipping."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tfdist.programs.base import BrokenRule, StrictModel, exclusive


class OptimizerConfig(StrictModel):
    """The optimizer. Its learning rate is `learningRate`, scaled by `referenceBatchSize`."""

    name: Literal["adam", "adamw", "sgd"] = "adam"
    """Keras optimizer. `sgd` supports `momentum` and `weightDecay`, `adamw` supports `weightDecay`."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Momentum of `sgd`."""
    nesterov: bool = False
    """Whether `sgd` uses Nesterov momentum."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight decay of `adamw` and `sgd`, multiplied by the learning rate."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps of linear warm-up of the learning rate from 0, as large batches need (arXiv 1706.02677)."""
    decay: Literal["None", "Cosine"] = "None"
    """Learning-rate decay. `Cosine`: half a cosine from the end of the warm-up to 0 at step `decaySteps`."""
    decay_steps: int | None = Field(default=None, ge=1)
    """Step at which the learning rate reaches 0; required for `Cosine`."""
    global_clip_norm: float | None = Field(default=None, gt=0)
    """Clips the gradients of all weights so that their global norm is at most this value. Applies to the gradient of
    the global batch; with parameter servers, to the gradient of each worker's batch."""
    clip_value: float | None = Field(default=None, gt=0)
    """Clips each element of the gradients to this absolute value."""

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        for name, value in (("momentum", self.momentum), ("nesterov", self.nesterov)):
            if value and self.name != "sgd":
                yield BrokenRule((name,), f"only sgd has {name}; the optimizer is {self.name}")
        if self.weight_decay and self.name == "adam":
            yield BrokenRule(("weightDecay",), "only adamw and sgd have weightDecay; the optimizer is adam")
        if self.decay == "Cosine" and (self.decay_steps is None or self.decay_steps <= self.warmup_steps):
            yield BrokenRule(("decaySteps",), "decay Cosine requires decaySteps, greater than warmupSteps")
        if self.global_clip_norm is not None and self.clip_value is not None:
            yield exclusive("globalClipNorm", "clipValue")
