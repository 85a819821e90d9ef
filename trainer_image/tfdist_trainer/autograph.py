"""What AutoGraph translates: functions of users' programs, and none of ours.

AutoGraph rewrites the source of every function that is traced, so that `if` and `while` may look at tensors. For the
bundled programs that took three quarters of the processor time between a start and its first step, with every
recovery. Our own graphs say `tf.cond` and `tf.while_loop`, and are traced as they are written; a user's loss, metrics
and models are translated as in any `tf.function`.
"""

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar, cast

import tensorflow as tf

P = ParamSpec("P")
R = TypeVar("R")

_OURS: Final = __name__.partition(".")[0]


def graph(function: Callable[P, R], **options: Any) -> Callable[P, R]:
    """Return a function of ours as a `tf.function` with these `options`; what it calls is not translated either."""
    made: Callable[P, R] = tf.function(function, autograph=False, **options)
    return made


def untranslated(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function of ours for a data set to trace, which would translate it."""
    return cast("Callable[P, R]", tf.autograph.experimental.do_not_convert(function))


def translated(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that a program may have from its user; one of ours as it is.

    To be called outside of graphs: inside one of ours AutoGraph is off.
    """
    if str(getattr(function, "__module__", "")).partition(".")[0] == _OURS:
        return function
    convert = tf.__internal__.autograph
    return cast("Callable[P, R]", convert.tf_convert(function, convert.control_status_ctx()))
