"""How gradients change the model: the optimizer, the schedule of its rate, and bounds of gradients."""

from typing import Literal, Self

import pydantic
from pydantic import Field

from tfdist_trainer.programs.config import StrictModel


class OptimizerConfig(StrictModel):
    """How gradients change the model. The rate is `learningRate`, scaled as `baseBatchSize` says."""

    name: Literal["adam", "adamw", "sgd"] = "adam"
    """`sgd` takes `momentum`; `adamw` takes `weightDecay`."""
    momentum: float = Field(default=0.0, ge=0, lt=1)
    """Of `sgd`: how much of the last update goes into the next."""
    nesterov: bool = False
    """Of `sgd`: look ahead by the momentum."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Of `adamw` and `sgd`: how much of each weight an update takes away, times the rate."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps in which the rate grows from 0 to its value, as large batches need (arXiv 1706.02677)."""
    decay: Literal["None", "Cosine"] = "None"
    """`Cosine`: the rate falls to 0 by half a cosine from the end of the warm-up to step `decaySteps`."""
    decay_steps: int | None = Field(default=None, ge=1)
    """The step at which the rate reaches 0; needed for `Cosine`."""
    clip_norm: float | None = Field(default=None, gt=0)
    """Largest norm of the gradient of all weights together; a larger one is scaled down. It is the gradient of the
    whole global batch that is measured."""
    clip_value: float | None = Field(default=None, gt=0)
    """Largest absolute value of each element of the gradient."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name != "sgd" and (self.momentum or self.nesterov):
            raise ValueError(f"momentum and nesterov are of sgd, not of {self.name}")
        if self.name == "adam" and self.weight_decay:
            raise ValueError("weightDecay is of adamw and sgd, not of adam")
        if self.decay == "Cosine" and (self.decay_steps is None or self.decay_steps <= self.warmup_steps):
            raise ValueError("Cosine needs decaySteps, more than warmupSteps")
        if self.clip_norm is not None and self.clip_value is not None:
            raise ValueError("give clipNorm or clipValue, not both")
        return self
