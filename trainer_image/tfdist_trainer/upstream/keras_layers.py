"""Private hooks of Keras' layers: all layers of a model at any depth, a replacement of a layer's computation, words."""

from collections.abc import Callable
from typing import Any, Final

from tfdist_trainer.upstream.hook import Hook, fall_back, reject

LAYERS: Final = Hook(
    package="keras",
    name="keras:Layer._flatten_layers",
    source="keras/src/layers/layer.py",
    reason="`Model.layers` has the first level only, and a subclassed layer has no public list of its sublayers.",
    missing="BatchNormalization is computed by Keras' own operations",
    parameters=("self", "include_self", "recursive"),
)
CALL: Final = Hook(
    package="keras",
    name="keras:Layer.call",
    source="keras/src/layers/layer.py",
    reason="`kernels.batch_normalization` replaces `call` on one instance. The method is public, and that "
    "`Layer.__call__` looks it up on the instance at each call is not promised. A subclass would change the model's "
    "configuration and its exported form.",
    missing="BatchNormalization is computed by Keras' own operations",
    parameters=("self", "args", "kwargs"),
)
WORDS: Final = Hook(
    package="keras",
    name="keras.layers:TextVectorization._preprocess",
    source="keras/src/layers/preprocessing/text_vectorization.py",
    reason="The layer returns indices, and `adapt` counts the words of one process only. Words are counted over all "
    "workers, and must be those that the layer looks up.",
    missing="a text classification ends with an error",
    parameters=("self", "inputs"),
)
HOOKS: Final = (LAYERS, CALL, WORDS)


def all_layers(model: Any) -> list[Any]:
    """Return the layers of a Keras 3 `model` at any depth, each once; of `tf_keras` and others none or as it has them.

    The model itself is among them.
    """
    flatten = getattr(model, "_flatten_layers", None)
    if flatten is None:
        fall_back(LAYERS)
        return []
    return list(flatten())


def synchronized_statistics(model: Any) -> set[int]:
    """Return the identities of the statistics that layers of `model` compute over all replicas in a step."""
    layers = [each for each in all_layers(model) if getattr(each, "synchronized", False)]
    return {id(variable) for layer in layers for variable in layer.non_trainable_variables}


def replace_call(layer: Any, call: Callable[..., Any]) -> None:
    """Make `layer` compute by `call`, which takes the arguments of the layer's own method."""
    layer.call = call


def words(layer: Any, texts: Any) -> Any:
    """Return the words that the `TextVectorization` layer finds in `texts`, strings [batch], as strings [words].

    Raises:
        ConfigurationError: the hook is missing.
    """
    preprocess = getattr(layer, "_preprocess", None)
    if preprocess is None:
        reject(WORDS)
    return preprocess(texts).flat_values
