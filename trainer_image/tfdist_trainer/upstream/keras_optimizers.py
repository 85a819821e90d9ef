"""Private hooks of Keras' optimizers: the reduction of gradients, the update of variables, and Adam's moments."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tfdist_trainer.upstream.hook import Hook, fall_back, reject

_BACKEND: Final = "keras/src/backend/tensorflow/optimizer.py"

REDUCE: Final = Hook(
    package="keras",
    name="keras.optimizers:Optimizer._all_reduce_sum_gradients",
    source=_BACKEND,
    reason="Keras sums gradients over replicas after clipping. The training step sums them before, so that clipping "
    "sees the gradient of the global batch; a second sum would multiply the gradient by the number of replicas.",
    missing="training ends with a configuration error",
    parameters=("self", "grads_and_vars"),
)
UPDATE: Final = Hook(
    package="keras",
    name="keras.optimizers:Optimizer._backend_update_step",
    source=_BACKEND,
    reason="`kernels.adam` updates each variable by one operation. The public `update_step` is called inside "
    "`Strategy.extended.update`, once for each variable, with the operations around it that the kernel saves.",
    missing="Adam updates by Keras' own operations",
    parameters=("self", "grads", "trainable_variables", "learning_rate"),
)
INDEX: Final = Hook(
    package="keras",
    name="keras.optimizers:Adam._get_variable_index",
    source="keras/src/optimizers/base_optimizer.py",
    reason="The place of a variable's moments in the optimizer's lists.",
    missing="Adam updates by Keras' own operations",
    parameters=("self", "variable"),
)
MOMENTUMS: Final = Hook(
    package="keras",
    name="keras.optimizers:Adam()._momentums",
    source="keras/src/optimizers/adam.py",
    reason="The kernel updates Adam's own first moments, so that checkpoints are the same with and without it.",
    missing="Adam updates by Keras' own operations",
)
VELOCITIES: Final = Hook(
    package="keras",
    name="keras.optimizers:Adam()._velocities",
    source="keras/src/optimizers/adam.py",
    reason="The kernel updates Adam's own second moments, so that checkpoints are the same with and without it.",
    missing="Adam updates by Keras' own operations",
)
HOOKS: Final = (REDUCE, UPDATE, INDEX, MOMENTUMS, VELOCITIES)

Update = Callable[[Sequence[Any], Sequence[Any], Any], None]
"""(gradients, variables, learning rate) -> None; changes the variables."""


def disable_gradient_reduction(optimizer: Any) -> None:
    """Keep a Keras 3 `optimizer`, and one that it wraps, from summing gradients over replicas.

    Raises:
        ConfigurationError: Keras has another way to reduce, so gradients would be summed twice.
    """
    for each in (optimizer, getattr(optimizer, "inner_optimizer", optimizer)):
        if not callable(getattr(each, "_all_reduce_sum_gradients", None)):
            reject(REDUCE)
        each._all_reduce_sum_gradients = lambda grads_and_vars: grads_and_vars


def replace_adam_update(adam: Any, wrap: Callable[[Update], Update]) -> bool:
    """Replace the update of a built Keras `adam` by `wrap(its own update)`; return whether Keras has the hooks."""
    for hook in (UPDATE, INDEX, MOMENTUMS, VELOCITIES):
        if not hasattr(adam, hook.attribute):
            fall_back(hook)
            return False
    if UPDATE.attribute not in vars(adam):
        adam._backend_update_step = wrap(adam._backend_update_step)
    return True


def moments_of(adam: Any, variable: Any) -> tuple[Any, Any]:
    """Return the Keras variables that hold the first and the second moment of `variable` in a built `adam`."""
    index = adam._get_variable_index(variable)
    return adam._momentums[index], adam._velocities[index]
