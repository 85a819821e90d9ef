"""Optimizers of Keras in a step of several replicas: `apply` exchanges the gradients first.

So clipping, loss scaling and accumulation see the gradient of the global batch, as they do on one worker.
"""

from collections.abc import Callable
from typing import Any

import keras

from tfdist_trainer.keras.replica_step import current_step
from tfdist_trainer.kernels import adam
from tfdist_trainer.upstream.keras_fit import updated_variables


def apply(original: Callable[..., None]) -> Callable[..., None]:
    """Return `Optimizer.apply` with an exchange of the gradients before it."""

    def exchange_and_apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        step = current_step()
        # `is_exchanged`: a wrapper such as `LossScaleOptimizer` calls the `apply` of the optimizer inside.
        if step is None or step.is_exchanged or all(gradient is None for gradient in grads):
            original(self, grads, trainable_variables)
            return
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            # Before `fuse`, which replaces the update of a built optimizer.
            _build(self, trainable_variables)
        # First of all: Keras clips, scales and accumulates in `apply`, and must see the global gradient.
        gradients = step.exchange(list(grads), updated_variables(self, trainable_variables), self)
        adam.fuse(self)
        with step.exchanged_scope():
            original(self, gradients, trainable_variables)

    return exchange_and_apply


def _build(optimizer: Any, variables: list[Any]) -> None:
    """Build an optimizer in its first step, as `apply` does: it must be before its update is replaced."""
    if not optimizer.built:
        with keras.name_scope(optimizer.name, caller=optimizer):
            optimizer.build(variables)
        optimizer.built = True


def scale_loss(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `Optimizer.scale_loss` with the weight of the local batch in a step.

    With `LossScaleOptimizer` it is the share of all examples: the weight would make gradients in float16 overflow.
    """

    def scale(self: Any, loss: Any) -> Any:
        step, scaled = current_step(), original(self, loss)
        if step is None:
            return scaled
        # In float16 the weight itself would make gradients overflow.
        is_share = isinstance(self, keras.optimizers.LossScaleOptimizer)
        return step.weigh_share(scaled, self) if is_share else step.weigh(scaled, self)

    return scale


def keep_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Keras' own sum of gradients over replicas, without effect in a step."""

    def reduce(self: Any, grads_and_vars: Any) -> Any:
        return original(self, grads_and_vars) if current_step() is None else list(grads_and_vars)

    return reduce
