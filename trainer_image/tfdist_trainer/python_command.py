"""Recognizes the Python script or module of a command, and the one that this interpreter was started with."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

TRAINER: Final = "tfdist_trainer"
_IGNORED_OPTIONS: Final = frozenset({"-u", "-B"})
"""Options without effect here: the output of the launcher is unbuffered, and the bytecode of an image is written."""


class CommandKind(StrEnum):
    """The forms of what Python can run."""

    SCRIPT = "script"
    MODULE = "module"
    CODE = "code"
    INPUT = "input"


@dataclass(frozen=True, slots=True)
class PythonCommand:
    """A script, module or code with its arguments."""

    kind: CommandKind
    target: str
    """Path of the script, name of the module, the code, or what `sys.argv` has for a script of standard input."""
    arguments: tuple[str, ...]

    @property
    def is_trainer(self) -> bool:
        """Whether it is the bundled trainer."""
        return self.kind is CommandKind.MODULE and self.target == TRAINER


def parse_python_command(command: Sequence[str]) -> PythonCommand | None:
    """Return the script or module that `command` runs with this interpreter, as the fork server can in a fork.

    These are `python train.py`, `python -u train.py` and `python -m module`; None for any other command, which is
    started by exec. Pure except for the lookup of the command in PATH.
    """
    if not _is_this_interpreter(command[0]):
        return None
    arguments = list(command[1:])
    while arguments and arguments[0] in _IGNORED_OPTIONS:
        del arguments[0]
    if len(arguments) > 1 and arguments[0] == "-m":
        return PythonCommand(CommandKind.MODULE, arguments[1], tuple(arguments[2:]))
    if arguments and not arguments[0].startswith("-"):
        return PythonCommand(CommandKind.SCRIPT, arguments[0], tuple(arguments[1:]))
    return None


def _is_this_interpreter(word: str) -> bool:
    import shutil  # noqa: PLC0415  takes longer than everything else that an interpreter imports here

    executable = shutil.which(word)
    if executable is None or not Path(word).name.startswith("python"):
        return False
    # Compare the folders of the links, not of their targets: a venv's `python` is a link, and its folder makes it that
    # venv's interpreter.
    interpreter = Path(sys.executable)
    same_folder = Path(executable).absolute().parent == interpreter.absolute().parent
    return same_folder and Path(executable).resolve() == interpreter.resolve()


def started_with(arguments: Sequence[str], original: Sequence[str]) -> tuple[list[str], PythonCommand] | None:
    """Return the options of an interpreter and what it runs; None if that is not known.

    Args:
        arguments: `sys.argv` before anything has changed it.
        original: `sys.orig_argv`.
    """
    rest = tuple(arguments[1:])
    end = len(original) - len(rest)
    if arguments[0] == "-c" or arguments[0] == "-m":
        flags, kind = original[end - 2], CommandKind.CODE if arguments[0] == "-c" else CommandKind.MODULE
        # The options cannot be separated from the text.
        if not flags.startswith("-") or not flags.endswith(arguments[0][1]):  # `-cpass`, the text within the option
            return None
        others = [flags[:-1]] if len(flags) > len("-c") else []
        return [*original[1 : end - 2], *others], PythonCommand(kind, original[end - 1], rest)
    if arguments[0] == "":
        return list(original[1:]), PythonCommand(CommandKind.INPUT, "", ())
    if original[end - 1] != arguments[0]:
        return None
    if arguments[0] == "-":
        return list(original[1 : end - 1]), PythonCommand(CommandKind.INPUT, "-", rest)
    return list(original[1 : end - 1]), PythonCommand(CommandKind.SCRIPT, arguments[0], rest)
