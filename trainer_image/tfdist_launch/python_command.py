"""Which commands are Python programs that the warm process can run, and how.

`python train.py`, `python -u train.py` and `python -m module` of this very interpreter; anything else is started as it
is. Pure but for the look where a command is found.
"""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TRAINER: Final = "tfdist_trainer"
_HARMLESS: Final = frozenset({"-u", "-B"})
"""Options that change nothing here: a launcher's output has no buffer, and an image's bytecode is written."""


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A script or module with its arguments."""

    target: str
    is_module: bool
    arguments: tuple[str, ...]

    @property
    def is_trainer(self) -> bool:
        """Whether it is the bundled trainer."""
        return self.is_module and self.target == TRAINER


def python_program(command: Sequence[str]) -> PythonProgram | None:
    """Return what `command` runs with this interpreter, or None."""
    if not _is_this_interpreter(command[0]):
        return None
    rest = list(command[1:])
    while rest and rest[0] in _HARMLESS:
        del rest[0]
    if len(rest) > 1 and rest[0] == "-m":
        return PythonProgram(rest[1], True, tuple(rest[2:]))
    if rest and not rest[0].startswith("-"):
        return PythonProgram(rest[0], False, tuple(rest[1:]))
    return None


def _is_this_interpreter(word: str) -> bool:
    found = shutil.which(word)
    if found is None or not Path(word).name.startswith("python"):
        return False
    # Not the file behind a link: a venv's `python` is a link, and what makes it that venv's is where the link is.
    mine = Path(sys.executable)
    same_place = Path(found).absolute().parent == mine.absolute().parent
    return same_place and Path(found).resolve() == mine.resolve()
