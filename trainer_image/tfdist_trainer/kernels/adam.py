"""Makes Keras' Adam update each variable by one fused operation.

Keras writes the rule of Adam (arXiv 1412.6980, end of section 2) as some twenty operations for each variable, which
are traced and prepared with every start and recovery, and read and write all numbers of the variable several times a
step. TensorFlow's kernel `ResourceApplyAdam` is the same rule, over the same variables of the optimizer: checkpoints
written with one are read with the other.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist_trainer.upstream.keras_optimizers import Update, moments_of, replace_adam_update


def fuse(optimizer: Any) -> None:
    """Make `optimizer` update by TensorFlow's kernel if it is Keras' own Adam or AdamW; else change nothing.

    It must have been built, and then be applied in a replica's context to gradients that are reduced already.
    """
    adam = getattr(optimizer, "inner_optimizer", optimizer)
    # Not a subclass, which may have another rule.
    if type(adam) not in {keras.optimizers.Adam, keras.optimizers.AdamW} or adam.amsgrad:
        return
    replace_adam_update(adam, lambda by_keras: partial(_update, adam, by_keras))


def _update(adam: Any, by_keras: Update, gradients: Sequence[Any], variables: Sequence[Any], rate: Any) -> None:
    """Update `variables` by the kernel if it supports them all, else by the method that it replaces."""
    # All or none: one step must not follow two rules.
    if not all(map(_is_plain, gradients, variables)):
        by_keras(gradients, variables, rate)
        return
    step = tf.cast(tf.convert_to_tensor(adam.iterations) + 1, tf.float32)
    first, second = (_rounding_factor(beta, step) for beta in (adam.beta_1, adam.beta_2))
    common = {
        "beta1_power": tf.pow(tf.constant(adam.beta_1), step),
        "beta2_power": tf.pow(tf.constant(adam.beta_2), step),
        # Corrects the kernel's rounding of 1 - beta, see `_rounding_factor`.
        "lr": tf.cast(rate, tf.float32) * tf.sqrt(second) / first,
        "beta1": adam.beta_1,
        "beta2": adam.beta_2,
        "epsilon": adam.epsilon * tf.sqrt(second),
    }
    for gradient, variable in zip(gradients, variables, strict=True):
        var, m, v = (each.value.handle for each in (variable, *moments_of(adam, variable)))
        tf.raw_ops.ResourceApplyAdam(var=var, m=m, v=v, grad=gradient, **common)


def _rounding_factor(beta: float, step: tf.Tensor) -> tf.Tensor:
    """Return a moment of the kernel after `step` updates by equal gradients, divided by Keras', float32 [].

    The kernel subtracts `beta` from 1 in float32, Keras in float64: of 0.999 the results differ by 1.3e-5, and so do
    the moments of the first steps. Uncorrected, weights differ by more than 1e-5 after a few hundred steps.
    """
    count = tf.cast(step, tf.float64)
    by_kernel, by_keras = float(np.float32(beta)), 1 - float(np.float32(1 - beta))
    return tf.cast(
        (1 - tf.pow(tf.constant(by_kernel, tf.float64), count))
        / (1 - tf.pow(tf.constant(by_keras, tf.float64), count)),
        tf.float32,
    )


def _is_plain(gradient: Any, variable: Any) -> bool:
    """Return whether the kernel supports them: a dense gradient of a variable of Keras 3, both in float32."""
    return (
        isinstance(gradient, tf.Tensor)
        and isinstance(variable, keras.Variable)
        and gradient.dtype == tf.float32
        and variable.dtype == "float32"
    )
