"""The script that calls a function in its job, and reports what it returns."""

import json
import math
from typing import Any, Final

from tfdist.client.errors import FunctionError
from tfdist.client.function_source import FunctionSource
from tfdist.contract import JOB_ENV, RETURNED_VALUE_BYTES, TERMINATION_LOG_ENV

ARGUMENTS_ENV: Final = "FUNCTION_ARGUMENTS"
"""Variable of the trials of a sweep: JSON of the arguments. Sweeps set no variables that begin with `TFDIST_`."""
IMPORTING_ENV: Final = "TFDIST_IMPORTS_FUNCTION"
"""Set while the module of the function is imported: a job that it submits then would submit another one, and so on."""

_TEMPLATE: Final = '''"""Calls the function {name} with the arguments of its job; made by tfdist."""

import importlib
import json
import os
import sys
import types

FOLDER = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = json.loads({arguments})


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


def plain(value):
    """Return a NumPy number or array, or a tensor, as numbers and lists."""
    if not hasattr(value, "tolist") and hasattr(value, "numpy"):
        value = value.numpy()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError("a " + type(value).__name__ + " is not JSON")


def report(value):
    """Report a value to the job: it is stored in the status. Large ones belong into files, others are no data."""
    text, problem = None, None
    try:
        text = json.dumps(value, allow_nan=False, default=plain, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        problem = "{name} returned a value that cannot be stored in the status (" + str(error)[:200] + "): return \
numbers, texts, lists and dictionaries, and save the rest by spec.checkpoint or training.export, or in a file"
    if text is not None and len(json.dumps(text)) > {limit}:
        problem = "{name} returned " + format(len(json.dumps(text)), ",") + " bytes of JSON, and {limit:,} fit into \
the status: save the value by spec.checkpoint or training.export, or in a file"
        text = None
    if problem is not None:
        print("tfdist: " + problem, file=sys.stderr)
    try:
        from tfdist_trainer.script import report_returned
    except ImportError:
        write(text, problem)
    else:
        report_returned(text, problem)


def write(text, problem):
    """Write the termination message: the image has no trainer that would."""
    if {job!r} not in os.environ:
        return
    returned = {{key: item for key, item in (("value", text), ("problem", problem)) if item is not None}}
    message = {{"schemaVersion": 1, "reason": "Completed", "message": "", "returned": returned}}
    with open(os.environ.get({log!r}) or "/dev/termination-log", "w", encoding="utf-8") as file:
        json.dump(message, file)


if __name__ == "__main__":
    prepare()
    report(function()(**ARGUMENTS))
'''


def script_of(source: FunctionSource, arguments: dict[str, Any] | None) -> bytes:
    """Return the text of a script that imports a function and calls it.

    Args:
        source: the function.
        arguments: its arguments, JSON; None for those of the trial of a sweep, in `ARGUMENTS_ENV`.
    """
    text = _TEMPLATE.format(
        name=source.name,
        module=source.module,
        root=source.root,
        arguments=f"os.environ[{ARGUMENTS_ENV!r}]" if arguments is None else repr(json.dumps(arguments)),
        importing=IMPORTING_ENV,
        limit=RETURNED_VALUE_BYTES,
        job=JOB_ENV,
        log=TERMINATION_LOG_ENV,
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
