"""Runs a script of a job that Python was started with, so that its end is known (`script_end`).

    python OPTIONS run_script.py script|module|code|input TARGET ARGUMENTS ...

`tfdist_trainer_keras.pth` calls `restart` at the start of every interpreter with `TFDIST_JOB`: it replaces the process
by this program in the same interpreter with the same options, which takes as long as a start of Python. So a script
ends in the same way whether a launcher has started it, an image of the user, or a shell.
"""

import os
import sys
from pathlib import Path
from typing import Final

from tfdist_trainer.python_command import CommandKind, PythonCommand, started_with

_OWN_MODULES: Final = frozenset({"tfdist_trainer", "tfdist_launch"})
_OWN_COMMANDS: Final = frozenset({"tfdist-train", "tfdist-launch"})
"""Our own modules and commands have an end of their own."""
_OF_MULTIPROCESSING: Final = "from multiprocessing."
"""The code of its helpers begins with it, such as `from multiprocessing.spawn import spawn_main`."""


def restart() -> None:
    """Replace this process, if it was started with a script, module or code of a user.

    A process that `multiprocessing` has started stays, and finishes what its function has trained.
    """
    # A prompt has no end to follow; and this program must not start itself again.
    if sys.flags.interactive or sys.argv[0] == __file__:
        return
    started = started_with(sys.argv, sys.orig_argv)
    if started is None:
        return
    # A child of `multiprocessing` ends with its function, and its parent waits for this very process (ADR 55).
    if started[1].kind is CommandKind.CODE and started[1].target.startswith(_OF_MULTIPROCESSING):
        from tfdist_trainer import script_end  # noqa: PLC0415  light, but not needed by most interpreters

        script_end.follow_children()
        return
    options, command = started
    if _is_own(command) or (command.kind is CommandKind.INPUT and _is_prompt()):
        return
    arguments = [sys.executable, *options, __file__, command.kind, command.target, *command.arguments]
    os.execv(sys.executable, arguments)  # noqa: S606  the same interpreter


def _is_prompt() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _is_own(command: PythonCommand) -> bool:
    if command.kind is CommandKind.MODULE:
        return command.target.partition(".")[0] in _OWN_MODULES
    return Path(command.target).name in _OWN_COMMANDS


def main() -> None:
    """Run the script of the arguments."""
    if not sys.flags.safe_path:
        del sys.path[0]  # the folder of this file
    from tfdist_trainer import script_end  # noqa: PLC0415  found in the folder of this file otherwise

    _, kind, target, *arguments = sys.argv
    script_end.run(PythonCommand(CommandKind(kind), target, tuple(arguments)))


if __name__ == "__main__":
    main()
