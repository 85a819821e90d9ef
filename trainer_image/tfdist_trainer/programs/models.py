"""Creates the models of programs, and checks that the training step of programs can train them."""

from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.data.files import Shard, Split
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.traced import CALL, with_reported_errors

_OF_FIT: Final = ("train_step", "test_step", "compute_loss", "compute_metrics")
"""Methods that only `fit` and `evaluate` of Keras call."""


def new_model(program: Program, split: Split, shard: Shard) -> Any:
    """Return a new model of `program`, called in the strategy's scope.

    A model without variables until its first call is called with zeros in the shapes of the examples of `split`, of
    which this process reads `shard`.

    Raises:
        ConfigurationError: it must be called, and the shapes are unknown.
    """
    model = program.model()
    if getattr(model, "built", True):
        return model
    features = program.dataset(split, shard).element_spec[0]
    with_reported_errors(program, CALL, model)(tf.nest.map_structure(_zeros, features), training=False)
    return model


def check_trainable(model: Any) -> None:
    """Check that the training step of programs trains `model` as its author intends.

    Raises:
        ConfigurationError: it has nothing to train, or overrides a method of `fit`.
    """
    names = [name for name in _OF_FIT if getattr(type(model), name, None) is not getattr(keras.Model, name, None)]
    if names and isinstance(model, keras.Model):
        raise ConfigurationError(
            f"training.program: the model {type(model).__name__!r} overrides {names[0]}(), which only fit calls; train "
            "it by a script with fit (training.script, docs/keras.md), or write it as loss() and metrics() of the "
            "program"
        )
    if not model.trainable_variables:
        raise ConfigurationError(
            "training.program: model() has no trainable variable, so there is nothing to train; return a model with "
            "at least one layer that has weights, and trainable = True"
        )


def _zeros(spec: Any) -> Any:
    if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
        raise ConfigurationError(
            f"training.program: model() is not built, and dataset() has features of unknown shape ({spec}); begin the "
            "model with a keras.layers.Input, or call its build()"
        )
    return tf.zeros([1, *(size or 1 for size in spec.shape)], spec.dtype)
