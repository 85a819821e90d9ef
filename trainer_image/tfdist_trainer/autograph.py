"""AutoGraph for the functions of users' programs, and for none of the trainer's own.

AutoGraph rewrites the source of every traced function, so that `if` and `while` accept tensors. For the bundled
programs the conversion took three quarters of the processor time between a start and its first step, with every
recovery. The trainer's own graphs use `tf.cond` and `tf.while_loop`, and are traced as they are written; a user's
loss, metrics and models are converted as in any `tf.function`.
"""

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import tensorflow as tf

from tfdist_trainer.upstream.autograph_conversion import convert

P = ParamSpec("P")
R = TypeVar("R")

_PACKAGE: Final = __name__.partition(".")[0]


def graph(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Return a `tf.function` with these `options` that neither converts `function` nor the functions that it calls."""
    traced: Callable[P, R] = tf.function(function, autograph=False, **options)
    return traced


def do_not_convert(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, of the trainer, such that a data set that traces it does not convert it."""
    return cast("Callable[P, R]", tf.autograph.experimental.do_not_convert(function))


def autograph_converted(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function` with AutoGraph's conversion if it is a user's, and unchanged if it is the trainer's.

    To be called outside of graphs: inside the trainer's graphs AutoGraph is off.
    """
    if str(getattr(function, "__module__", "")).partition(".")[0] == _PACKAGE:
        return function
    return cast("Callable[P, R]", convert(function))
