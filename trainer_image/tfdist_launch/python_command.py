"""Recognizes commands that the fork server can run in a fork: Python scripts and modules of this interpreter.

These are `python train.py`, `python -u train.py` and `python -m module`; any other command is started by exec. Pure
except for the lookup of the command in PATH.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TRAINER: Final = "tfdist_trainer"
_IGNORED_OPTIONS: Final = frozenset({"-u", "-B"})
"""Options without effect here: the output of the launcher is unbuffered, and the bytecode of an image is written."""


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A script or module with its arguments."""

    target: str
    is_module: bool
    arguments: tuple[str, ...]

    @property
    def is_trainer(self) -> bool:
        """Whether it is the bundled trainer."""
        return self.is_module and self.target == TRAINER


def parse_python_command(command: Sequence[str]) -> PythonCommand | None:
    """Return the script or module that `command` runs with this interpreter; None for any other command."""
    if not _is_this_interpreter(command[0]):
        return None
    arguments = list(command[1:])
    while arguments and arguments[0] in _IGNORED_OPTIONS:
        del arguments[0]
    if len(arguments) > 1 and arguments[0] == "-m":
        return PythonCommand(arguments[1], True, tuple(arguments[2:]))
    if arguments and not arguments[0].startswith("-"):
        return PythonCommand(arguments[0], False, tuple(arguments[1:]))
    return None


def _is_this_interpreter(word: str) -> bool:
    executable = shutil.which(word)
    if executable is None or not Path(word).name.startswith("python"):
        return False
    # Compare the folders of the links, not of their targets: a venv's `python` is a link, and its folder makes it that
    # venv's interpreter.
    interpreter = Path(sys.executable)
    same_folder = Path(executable).absolute().parent == interpreter.absolute().parent
    return same_folder and Path(executable).resolve() == interpreter.resolve()
