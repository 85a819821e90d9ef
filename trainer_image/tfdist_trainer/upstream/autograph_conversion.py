"""A private hook of AutoGraph: the conversion of one function for a graph that is traced without AutoGraph."""

from collections.abc import Callable
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.upstream.hook import Hook, reject

CONVERT: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.autograph.impl.api:tf_convert",
    source="tensorflow/python/autograph/impl/api.py, exported as tf.__internal__.autograph.tf_convert",
    reason="`tf.autograph.to_graph` converts a function's source once and for all, and fails on methods, callables and "
    "functions without source; `tf_convert` converts when it is called, and leaves those as they are.",
    missing="training ends with a configuration error",
    parameters=("f", "ctx", "convert_by_default", "user_requested"),
)
STATUS: Final = Hook(
    package="tensorflow",
    name="tensorflow.python.autograph.core.ag_ctx:control_status_ctx",
    source="tensorflow/python/autograph/core/ag_ctx.py, exported as tf.__internal__.autograph.control_status_ctx",
    reason="The state of AutoGraph that `tf_convert` takes.",
    missing="training ends with a configuration error",
    parameters=(),
)
HOOKS: Final = (CONVERT, STATUS)


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` for graphs that are traced without AutoGraph: AutoGraph converts it when it is traced.

    To be called outside of such a graph, where AutoGraph is on.

    Raises:
        ConfigurationError: TensorFlow lacks the hook.
    """
    exported = getattr(getattr(tf, "__internal__", None), "autograph", None)
    if exported is None or not hasattr(exported, "tf_convert"):
        reject(CONVERT)
    converted: Callable[..., Any] = exported.tf_convert(function, exported.control_status_ctx())
    return converted
