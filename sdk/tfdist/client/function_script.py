"""The script that calls a function in its job."""

import json
import math
from typing import Any, Final

from tfdist.client.errors import FunctionError
from tfdist.client.function_source import FunctionSource

SCRIPT: Final = "tfdist_call.py"
IMPORTING_ENV: Final = "TFDIST_IMPORTS_FUNCTION"
"""Set while the module of the function is imported: a job that it submits then would submit another one, and so on."""

_TEMPLATE: Final = '''"""Calls the function {name} with the arguments of its job; made by tfdist."""

import importlib
import json
import os
import sys
import types

FOLDER = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = json.loads({arguments!r})


def job(function=None, **_):
    """Stand for the decorator of a version of tfdist that has none."""
    return (lambda decorated: decorated) if function is None else function


def prepare():
    """Make the import of tfdist succeed in an image without it: the module of the function begins with it."""
    try:
        import tfdist
    except ImportError:
        tfdist = sys.modules["tfdist"] = types.ModuleType("tfdist")
    if not hasattr(tfdist, "job"):
        tfdist.job = job


def function():
    """Return the function of the module."""
    sys.path.insert(0, os.path.join(FOLDER, {root!r}))
    os.environ[{importing!r}] = "1"
    try:
        return getattr(importlib.import_module({module!r}), {name!r})
    finally:
        del os.environ[{importing!r}]


if __name__ == "__main__":
    prepare()
    function()(**ARGUMENTS)
'''


def script_of(source: FunctionSource, arguments: dict[str, Any]) -> bytes:
    """Return the text of a script that imports a function and calls it with JSON arguments."""
    text = _TEMPLATE.format(
        name=source.name,
        module=source.module,
        root=source.root,
        arguments=json.dumps(arguments),
        importing=IMPORTING_ENV,
    )
    return text.encode()


def check_json(value: Any, path: str) -> None:
    """Check that a value is the same after it was written as JSON and read again.

    Args:
        value: an argument.
        path: its name in the message, such as `lr`.

    Raises:
        FunctionError: it is not; the message has its path.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            check_json(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise FunctionError(f"{path}: the key {key!r} is not JSON; use a string")
            check_json(item, f"{path}[{key!r}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise FunctionError(f"{path} is {value}, which is not JSON; pass a finite number")
    elif value is not None and not isinstance(value, str | int | float):
        raise FunctionError(f"{path} is not JSON but of type {type(value).__name__}{_advice(value)}")


def _advice(value: Any) -> str:
    if isinstance(value, tuple | set | frozenset):
        return "; pass a list"
    if hasattr(value, "tolist"):
        return "; pass its value by .tolist()"
    return "; pass a number, a text, a list or a dictionary, or make it inside of the function"
