"""Optimizers of Keras in a step of several replicas: `apply` exchanges the gradients first.

So clipping, loss scaling and accumulation see the gradient of the global batch, as they do on one worker.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from tfdist_trainer.keras.replica_step import current
from tfdist_trainer.kernels import adam
from tfdist_trainer.upstream.keras_fit import variables_of


def apply(original: Callable[..., None]) -> Callable[..., None]:
    """Return `Optimizer.apply` with an exchange of the gradients before it."""

    def exchange_and_apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        step = current()
        if step is None or step.is_exchanged or all(gradient is None for gradient in grads):
            original(self, grads, trainable_variables)
            return
        gradients = step.exchange(list(grads), variables_of(self, trainable_variables))
        with step.exchanged():
            original(self, gradients, trainable_variables)

    return exchange_and_apply


def keep_gradients(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return Keras' own sum of gradients over replicas, without effect in a step."""

    def reduce(self: Any, grads_and_vars: Any) -> Any:
        return original(self, grads_and_vars) if current() is None else list(grads_and_vars)

    return reduce


def update(original: Callable[..., None]) -> Callable[..., None]:
    """Return Keras' update of variables with TensorFlow's kernel for Adam in a step: one operation a variable."""

    def update_variables(self: Any, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        by_keras = partial(original, self)
        if current() is not None and adam.is_supported(self):
            adam.update(self, by_keras, grads, trainable_variables, learning_rate)
        else:
            by_keras(grads, trainable_variables, learning_rate)

    return update_variables
