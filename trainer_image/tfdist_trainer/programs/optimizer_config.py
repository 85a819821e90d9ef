"""The configuration of the optimizer: learning-rate schedule, weight decay and gradient clipping."""

from typing import ClassVar, Literal, Self

import pydantic
from pydantic import ConfigDict, Field

from tfdist_trainer.programs.config import StrictModel, exclusive
from tfdist_trainer.programs.former_names import former_name


class OptimizerConfig(StrictModel):
    """The optimizer. Its learning rate is `learningRate`, scaled by `referenceBatchSize`."""

    model_config: ClassVar[ConfigDict] = exclusive(("globalClipNorm", "clipValue"))

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
    global_clip_norm: float | None = Field(default=None, gt=0, **former_name("globalClipNorm", "clipNorm"))
    """Clips the gradients of all weights so that their global norm is at most this value. Applies to the gradient of
    the global batch. Formerly `clipNorm`."""
    clip_value: float | None = Field(default=None, gt=0)
    """Clips each element of the gradients to this absolute value."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name != "sgd" and (self.momentum or self.nesterov):
            raise ValueError(f"only sgd has momentum and nesterov, not {self.name}")
        if self.name == "adam" and self.weight_decay:
            raise ValueError("only adamw and sgd have weightDecay, not adam")
        if self.decay == "Cosine" and (self.decay_steps is None or self.decay_steps <= self.warmup_steps):
            raise ValueError("Cosine needs decaySteps greater than warmupSteps")
        if self.global_clip_norm is not None and self.clip_value is not None:
            raise ValueError("give globalClipNorm or clipValue, not both")
        return self
