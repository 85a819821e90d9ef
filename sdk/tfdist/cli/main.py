"""Entry point of `tfdist`, which is `kubectl tfdist` too."""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tfdist.cli.errors import CommandExitCode, missing_package

_OBJECTS: Final = 100_000
"""New objects after which Python collects garbage. Imports make more than that, and no garbage: with the default of 700
this took a sixth of the time of `tfdist list`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments`, by default the arguments of the process, and return the exit code."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(_OBJECTS)
    if "--local" not in command_line:  # the processes of a local run inherit the environment
        # To find plugins, Pydantic would read the metadata of all installed packages: a tenth of the time.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        from tfdist.cli.app import app  # noqa: PLC0415  its packages may be absent
    except ModuleNotFoundError as error:
        if not (text := missing_package(error)):
            raise
        print(text, file=sys.stderr)
        return CommandExitCode.FAILED
    if "--debug" in command_line:  # also accepted after the command
        command_line = ["--debug", *(argument for argument in command_line if argument != "--debug")]
    name = "kubectl tfdist" if Path(sys.argv[0]).name == "kubectl-tfdist" else "tfdist"
    try:
        app(command_line, prog_name=name)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0
