"""Runs other programs by lists of arguments, and raises errors that contain their output."""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from tfdist_cluster.errors import ClusterError, CommandError

Arguments = Sequence[object]  # strings and paths; each becomes one argument


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for children; administration tools are on the path even of a plain user."""
    path = os.environ.get("PATH", "")
    return {**os.environ, "PATH": f"{path}:/usr/local/sbin:/usr/sbin:/sbin", "LC_ALL": "C", **(extra or {})}


def bound(command: Arguments) -> list[object]:
    """Return a command that the kernel kills together with this process, so that no orphan continues the work."""
    return ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else list(command)


def run(
    command: Arguments,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
    stdin: str | IO[bytes] | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """Run a program to its end and return its standard output.

    Args:
        command: program and arguments.
        env: variables added to the environment.
        cwd: working directory.
        log: file that gets standard output and error instead; the result is then empty.
        stdin: text, or an open file.
        timeout_seconds: the program is killed after this time.

    Raises:
        CommandError: the program exited with another status than 0, or exceeded the timeout.
        ClusterError: there is no such program.
    """
    arguments = [str(argument) for argument in command]
    try:
        completed = _run(arguments, env=env, cwd=cwd, log=log, stdin=stdin, timeout_seconds=timeout_seconds)
    except FileNotFoundError as error:
        raise ClusterError(f"`{arguments[0]}` is not installed (or {error.filename} does not exist)") from error
    except subprocess.TimeoutExpired as error:
        raise CommandError(shlex.join(arguments), -1, f"no end after {timeout_seconds} s") from error
    if completed.returncode != 0:
        output = log.read_text(errors="replace") if log else f"{completed.stdout}\n{completed.stderr}"
        raise CommandError(shlex.join(arguments), completed.returncode, output)
    return completed.stdout or ""


def _run(
    arguments: list[str],
    *,
    env: Mapping[str, str] | None,
    cwd: Path | None,
    log: Path | None,
    stdin: str | IO[bytes] | None,
    timeout_seconds: float | None,
) -> "subprocess.CompletedProcess[str]":
    text = stdin if isinstance(stdin, str) else None
    source = None if isinstance(stdin, str) else (stdin or subprocess.DEVNULL)
    if log is None:
        return subprocess.run(
            arguments, env=environment(env), cwd=cwd, input=text, stdin=source, capture_output=True, text=True,
            errors="replace", timeout=timeout_seconds, check=False,
        )  # fmt: skip
    with log.open("wb") as output:
        return subprocess.run(
            arguments, env=environment(env), cwd=cwd, input=text, stdin=source, stdout=output, stderr=output,
            text=True, timeout=timeout_seconds, check=False,
        )  # fmt: skip


def succeeds(command: Arguments, *, env: Mapping[str, str] | None = None, timeout_seconds: float = 30) -> bool:
    """Return whether a program exits with status 0; false if it is missing."""
    try:
        run(command, env=env, timeout_seconds=timeout_seconds)
    except ClusterError:
        return False
    return True


def wait_until(condition: Callable[[], bool], *, timeout_seconds: float, what: str) -> None:
    """Poll a condition until it is true, with a backoff of up to a second.

    Raises:
        ClusterError: the timeout expired first; the message starts with `what`.
    """
    deadline = time.monotonic() + timeout_seconds
    pause = 0.05
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {timeout_seconds:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)
