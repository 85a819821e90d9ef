"""Errors of a script that would fail deep inside TensorFlow: messages before the first step, with the remedy."""

from typing import Any, Final

import keras

from tfdist_trainer.upstream.keras_fit import was_created_in
from tfdist_trainer.upstream.keras_layers import all_layers

_REMEDY: Final = (
    "Create the model, its optimizer and its metrics, and call compile(), inside of `with strategy.scope():`."
)


_BUILD: Final = (
    "Build the model inside of `with strategy.scope():` too, such as by `keras.Input`, model.build(), a first call or "
    "model.summary(), and call methods that add weights there, such as enable_lora()."
)


def check_model(model: Any) -> None:
    """Check a compiled model of several workers before `fit`.

    Raises:
        ValueError: an optimizer, a metric or a weight was created outside of the scope of the model's strategy, or a
            layer keeps a state from batch to batch.
    """
    optimizer = getattr(model, "optimizer", None)
    # A wrapper of an optimizer may be made inside of the scope, and the optimizer outside.
    for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
        if each is not None and not was_created_in(each, model.distribute_strategy):
            raise ValueError(
                f"The optimizer {each.name!r} was made outside of the scope of the strategy of {model.name!r}. "
                f"{_REMEDY}"
            )
    for metric in getattr(model, "metrics", []):
        if any(not _is_distributed(variable) for variable in metric.variables):
            raise ValueError(
                f"The metric {metric.name!r} was made outside of the scope of the strategy of {model.name!r}. {_REMEDY}"
            )

    for variable in getattr(model, "trainable_variables", []):
        if not _is_distributed(variable):
            raise ValueError(
                f"The variable {variable.path!r} of {model.name!r} was made outside of the scope of its strategy. "
                f"{_BUILD}"
            )
    for layer in all_layers(model):
        if isinstance(layer, keras.layers.RNN) and layer.stateful:
            raise ValueError(
                f"The layer {layer.name!r} of {model.name!r} is stateful: its state has a row for each row of a batch, "
                "of which each worker has a part that can change. Use stateful=False, or train with one worker."
            )


def _is_distributed(variable: Any) -> bool:
    return hasattr(variable.value, "distribute_strategy")
