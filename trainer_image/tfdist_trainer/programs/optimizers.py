"""Creates the optimizer from its configuration."""

import math
from typing import Any

import tensorflow as tf

from tfdist.programs.optimizer import OptimizerConfig
from tfdist_trainer.keras_compat import keras


@keras.saving.register_keras_serializable("tfdist_trainer")
class WarmUpAndDecay(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # Keras ships no types
    """Learning rate with linear warm-up, and optional cosine decay to 0.

    Args:
        rate: learning rate after the warm-up.
        warmup_steps: steps of the warm-up.
        decay_steps: the step at which the rate reaches 0; None for a constant rate.
    """

    def __init__(self, rate: float, warmup_steps: int, decay_steps: int | None) -> None:
        self.rate = rate
        self.warmup_steps = warmup_steps
        self.decay_steps = decay_steps

    def __call__(self, step: Any) -> tf.Tensor:
        """Return the learning rate of the step with index `step`, from 0."""
        step = tf.cast(step, tf.float32)
        rate = tf.constant(self.rate, tf.float32)
        if self.decay_steps is not None:
            progress = (step - self.warmup_steps) / (self.decay_steps - self.warmup_steps)
            rate *= (1 + tf.cos(math.pi * tf.clip_by_value(progress, 0.0, 1.0))) / 2
        # step + 1: with a rate of 0 the first step would have no effect.
        return rate * tf.minimum(1.0, (step + 1) / max(1, self.warmup_steps))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor arguments."""
        return {"rate": self.rate, "warmup_steps": self.warmup_steps, "decay_steps": self.decay_steps}


def make(config: OptimizerConfig, rate: float) -> keras.optimizers.Optimizer:
    """Return a new optimizer with learning rate `rate` after the warm-up; called in the strategy's scope."""
    schedule: Any = rate
    if config.warmup_steps or config.decay_steps:
        schedule = WarmUpAndDecay(rate, config.warmup_steps, config.decay_steps if config.decay == "Cosine" else None)
    bounds = {"global_clipnorm": config.global_clip_norm, "clipvalue": config.clip_value}
    if config.name == "adam":
        return keras.optimizers.Adam(schedule, **bounds)
    if config.name == "adamw":
        return keras.optimizers.AdamW(schedule, weight_decay=config.weight_decay, **bounds)
    return keras.optimizers.SGD(
        schedule,
        momentum=config.momentum,
        nesterov=config.nesterov,
        weight_decay=config.weight_decay or None,
        **bounds,
    )
