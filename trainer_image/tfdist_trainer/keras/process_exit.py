"""The end of a process whose `fit` failed under several workers: the exception's message and exit code 1.

TensorFlow's threads still wait for the other workers then, and the interpreter that joins them may abort
(`free(): invalid pointer`, exit code 134), which hides the exception.
"""

import atexit
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final


@dataclass(slots=True)
class _Process:
    """How this process ends."""

    fit_failed: bool = False
    raised: bool = False
    """Whether an exception ends the process after that."""


_process: Final = _Process()


def install() -> None:
    """Make an exception that ends this process after a failed `fit` end it at once, after the handlers of `atexit`."""
    previous = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        previous(kind, error, trace)
        _process.raised = _process.fit_failed

    sys.excepthook = report
    # Now: a handler that is registered later runs before those of the script.
    atexit.register(_leave)


def noting_failure(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `function`, a method of Keras under several workers."""
    try:
        return function(*args, **kwargs)
    except Exception:
        _process.fit_failed = True
        raise


def _leave() -> None:
    if _process.raised:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)
