"""`kubectl_complete-tfdist`: the program from which kubectl reads the completions of `kubectl tfdist`."""

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from typing import Final

from tfdist.cli.main import main as command

_FILES: Final = 0
_NO_FILES: Final = 4
"""Directives of kubectl: what its shell completes if there are no words."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the completions of the last of the words after `kubectl tfdist`, then a directive, and return 0.

    Args:
        arguments: the words; default: the arguments of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    # the protocol of Typer's own scripts for bash
    os.environ["_TFDIST_COMPLETE"] = "complete_bash"
    os.environ["COMP_WORDS"] = shlex.join(["tfdist", *words])
    os.environ["COMP_CWORD"] = str(len(words))
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        command([])
    lines = output.getvalue().split()
    print("\n".join([*lines, f":{_NO_FILES if lines else _FILES}"]))
    return 0
