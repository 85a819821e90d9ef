"""The end of a process whose `fit` failed under several workers: the exception's message and exit code 1.

TensorFlow's threads still wait for the other workers then, and the interpreter that joins them may abort
(`free(): invalid pointer`, exit code 134), which hides the exception.
"""

import atexit
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any

_failed: list[bool] = []


def install() -> None:
    """Have an exception that ends this process after a failed `fit` end it at once, after the handlers of `atexit`."""
    previous = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        if _failed:
            # Registered now, a handler would run before those of the script.
            _failed.append(True)

    sys.excepthook = report
    atexit.register(_leave)


def noting_failure(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `function`, a method of Keras under several workers."""
    try:
        return function(*args, **kwargs)
    except Exception:
        _failed[:] = [True]
        raise


def _leave() -> None:
    if len(_failed) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
