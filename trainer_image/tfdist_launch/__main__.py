"""`tfdist-launch [--cold] [--] COMMAND ...`: process 1 of a replica.

Without a gang (`TFDIST_JOB` has no `launch`) the command replaces this process by exec.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tfdist_launch import settings
from tfdist_trainer import errors, log


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a replica's training process and exit with its code."""
    options = settings.parse(sys.argv[1:] if arguments is None else arguments)
    # Before anything else starts: no program of the replica may inherit the key (ADR 32).
    key = settings.take_key(os.environ)
    # A replica without a gang costs no launcher: the command takes the place of process 1.
    if not settings.has_launch_settings(os.environ):
        _exec(options.command)
    # Imported late: it takes a moment, which a command without a gang need not wait for.
    from tfdist_launch.launcher import Launcher  # noqa: PLC0415

    try:
        launcher = Launcher(settings.read_settings(os.environ, key), options, os.environ)
        code = asyncio.run(launcher.run())
    except errors.TrainerError as error:
        log.error(f"tfdist-launch: {error}")
        code = int(error.exit_code)
    # Not sys.exit, which would wait for a thread that still dumps stacks.
    sys.stdout.flush()
    os._exit(code)


def _exec(command: Sequence[str]) -> NoReturn:
    try:
        os.execvp(command[0], list(command))  # noqa: S606  the command is the user's own
    except OSError as error:
        log.error(f"tfdist-launch: cannot run {command[0]!r}: {error.strerror}")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
