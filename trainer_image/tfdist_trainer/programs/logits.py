"""The logits of a saved classifier, which may end in an activation that converts them to probabilities."""

from typing import Any

from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.keras_compat import keras

_SOFTMAX = frozenset({"softmax", "Softmax"})
_SIGMOID = frozenset({"sigmoid", "Sigmoid", "hard_sigmoid", "HardSigmoid"})


def logits_of(model: Any, field: str) -> tuple[Any, bool]:
    """Return `model` without a softmax at its end, and whether it had one.

    Weights and layers stay the same; a `model` whose last layer has the softmax as its activation is changed.

    Raises:
        ConfigurationError: it ends in a sigmoid, or in a softmax that cannot be left out; the message begins with
            `field`.
    """
    last = _last(model)
    name = _activation(last)
    if name in _SIGMOID:
        raise ConfigurationError(
            f"{field}: the model ends in a sigmoid, but each image has one class of several; save a model that ends in "
            "softmax, or in a Dense layer without an activation"
        )
    if name not in _SOFTMAX:
        return model, False
    if hasattr(last, "activation"):
        last.activation = keras.activations.linear
        return model, True
    if last is not _operations(model)[-1]:
        raise ConfigurationError(
            f"{field}: the model ends in a model whose last layer is a softmax, which cannot be left out; save it "
            "without that layer: training takes logits"
        )
    return keras.Model(model.inputs[0], last.input), True


def with_softmax(model: Any) -> Any:
    """Return `model` with a softmax behind its logits, as it was saved."""
    return keras.Model(model.inputs[0], keras.layers.Softmax(dtype="float32")(model.outputs[0]))


def _last(model: Any) -> Any:
    """Return the last operation of `model`, at any depth."""
    operations = _operations(model)
    if not operations:
        return model
    last = operations[-1]
    return _last(last) if isinstance(last, keras.Model) else last


def _operations(model: Any) -> list[Any]:
    """Return the layers of `model`, with operations such as `keras.ops.softmax` between them, in order."""
    operations: list[Any] = getattr(model, "operations", None) or model.layers
    return operations


def _activation(operation: Any) -> str:
    """Return the name of the activation of a layer, or of an operation that is one."""
    activation = getattr(operation, "activation", None)
    return getattr(activation, "__name__", "") if activation is not None else type(operation).__name__
