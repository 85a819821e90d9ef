"""Replicas as forks of one fork server: each import of TensorFlow takes seconds, and some tests start dozens.

Launchers start training processes and scripts in the same way (`tfdist_launch.fork_server`); here there is no launcher.
The fork runs the same `main` as `python -m tfdist_trainer`, or a script as its main module.
"""

import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final, Protocol

from tfdist_trainer import preload, script_end
from tfdist_trainer.python_command import CommandKind, PythonCommand

MODULES: Final = [f"tfdist_trainer.{name}" for name in preload.MODULES]

STACKS_SIGNAL: Final = signal.SIGUSR2
STACKS_LINE: Final = "most recent call first"
"""Of what a fork writes to its output after that signal (`faulthandler`)."""


class Running(Protocol):
    """What tests use of a process, as `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...


class Fork:
    """A replica that is a fork."""

    def __init__(
        self, environ: Mapping[str, str], output: Path, script: Sequence[str] = (), folder: Path | None = None
    ) -> None:
        """Start it.

        Args:
            environ: its environment, no other variable.
            output: file for its standard output and error.
            script: path of a script with its arguments; by default the program `tfdist_trainer` runs.
            folder: working directory; that of this process by default.
        """
        output.touch()  # By the time that the fork runs, a test may have read it.
        arguments = (dict(environ), str(output), [*script], str(folder or Path.cwd()))
        self._process = _context().Process(target=_replica, args=arguments, daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("tfdist_trainer", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, sig: int) -> None:
        """Send a signal, or nothing if the process has ended, as `Popen.send_signal` does."""
        if self._process.exitcode is None:
            # The fork server reaps its forks, so the pid may be gone before the exit code has been read here.
            with suppress(ProcessLookupError):
                os.kill(self.pid, sig)


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(MODULES)
    return context


def _replica(environ: dict[str, str], output: str, script: list[str], folder: str) -> None:
    """Become the script, or the program `tfdist_trainer`, with its output in the file `output`."""
    # The process that forks ignores it, and so does its fork, in which Ctrl-C means nothing anyway.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.chdir(folder)
    faulthandler.register(STACKS_SIGNAL)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:0] = [folder for folder in environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    assert not preload.is_started(), "a runtime of TensorFlow does not survive a fork"

    if script:
        script_end.run(PythonCommand(CommandKind.SCRIPT, script[0], tuple(script[1:])))
        return
    from tfdist_trainer.__main__ import main  # noqa: PLC0415  here, where everything is as in a new process

    main([])
