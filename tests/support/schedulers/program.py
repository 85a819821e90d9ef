"""A scheduler's process, as long as a block runs."""

import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from support.polling import WAIT_SECONDS, wait_for
from tfdist_cluster import shell, tools
from tfdist_cluster.paths import State

_SHOWN_LINES = 40


@contextmanager
def running(
    name: str, options: list[str], folder: pathlib.Path, ready: Callable[[], bool], **environment: str
) -> Iterator[None]:
    """Run a program of `tfdist_cluster tools`, built if it is not current, until the block ends.

    Args:
        name: of the program.
        options: its arguments.
        folder: its working directory, where its log is.
        ready: whether it does its work; asked until it does.
        environment: further variables.
    """
    program = tools.ensure(State.from_environment(), name)
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(word) for word in shell.bound([program, *options])],
            cwd=folder,
            env=os.environ | environment,
            stdout=output,
            stderr=output,
        )

    def is_ready() -> bool:
        assert process.poll() is None, f"{name} ended with {process.returncode}:\n{_end_of(log)}"
        return ready()

    try:
        wait_for(f"{name} to be ready", is_ready, context=lambda: _end_of(log))
        yield
        assert process.poll() is None, f"{name} ended with {process.returncode} before the test did"
    finally:
        _stop(process)
        print(_end_of(log))  # pytest shows it if a test failed


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=WAIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def _end_of(log: pathlib.Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:])
