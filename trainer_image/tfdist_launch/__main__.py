"""`tfdist-launch [--cold] [--] COMMAND ...`: process 1 of a replica.

Without a gang to be launched (`TFDIST_JOB` has no `launch`) the command takes this process' place, as if the launcher
were not there.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tfdist_launch import settings
from tfdist_trainer import errors, log


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a replica's program and exit as it does."""
    options = settings.parse(sys.argv[1:] if arguments is None else arguments)
    if not settings.has_gang(os.environ):
        _become(options.command)
    # What a gang needs takes a moment to import, and a program without one need not wait for it.
    from tfdist_launch.app import Launcher  # noqa: PLC0415

    try:
        launcher = Launcher(settings.read_place(os.environ), options, os.environ)
        code = asyncio.run(launcher.run())
    except errors.TrainerError as error:
        log.error(f"tfdist-launch: {error}")
        code = int(error.exit_code)
    sys.stdout.flush()
    os._exit(code)


def _become(command: Sequence[str]) -> NoReturn:
    try:
        os.execvp(command[0], list(command))  # noqa: S606  the command is the user's own
    except OSError as error:
        log.error(f"tfdist-launch: cannot run {command[0]!r}: {error.strerror}")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
