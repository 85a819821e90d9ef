"""Reports errors of what a step traces of a user's program: its loss, its metrics and the call of its model.

They recur with every restart, as do errors of the methods that the trainer calls itself (`user_program`).
"""

import traceback
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import tensorflow as tf

from tfdist_trainer.autograph import autograph_converted, do_not_convert
from tfdist_trainer.errors import TrainerError, cause_of
from tfdist_trainer.programs.base import Program
from tfdist_trainer.programs.user_program import program_error

P = ParamSpec("P")
R = TypeVar("R")

CALL: Final = "call() of the model"

_PACKAGE: Final = __name__.partition(".")[0]
_NOT_OF_CODE: Final = (TrainerError, OSError, MemoryError)
"""Errors that have been reported, and errors of files, the network and memory, which a restart may resolve."""


def traceable(program: Program, name: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, the part `name` of `program`, for a step that traces it: converted by AutoGraph.

    For a user's program it raises a ConfigurationError that names the part for an error of its code. To be called
    outside of graphs, as `autograph_converted`.
    """
    return with_reported_errors(program, name, autograph_converted(function))


def with_reported_errors(program: Program, name: str, function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, not converted, with the errors of its code reported as by `traceable`."""
    if not _is_user_program(program):
        return function

    # Without functools.wraps: the wrapper is one of the trainer, which AutoGraph does not convert.
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        try:
            return function(*arguments, **options)
        except Exception as error:
            original = _original(error)
            if not _is_code_error(original):
                raise original from None
            traceback.print_exc()
            raise program_error(name, type(original).__name__, cause_of(str(original))) from None

    return do_not_convert(call)


def _is_user_program(program: Any) -> bool:
    """Return whether `program` is of a class of the user, or an ensemble of such programs."""
    return any(type(each).__module__.partition(".")[0] != _PACKAGE for each in getattr(program, "programs", [program]))


def _original(error: BaseException) -> BaseException:
    """Return the exception of the code; AutoGraph raises another, which has a traceback as its text."""
    while str(error).startswith("in user code:") and error.__context__ is not None:
        error = error.__context__
    return error


def _is_code_error(error: BaseException) -> bool:
    if isinstance(error, tf.errors.OpError):
        return isinstance(error, tf.errors.InvalidArgumentError)
    return not isinstance(error, _NOT_OF_CODE)
