"""Runs programs as named steps: calm lines for people, everything else in a log file for each step.

A step says when it starts and about how long it takes, and when it ends how long it took. When it fails the error
carries the end of its log and the log's path: nobody has to look for it.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tfdist_images import state

TAIL_LINES = 15


class StepError(Exception):
    """A step that cannot be done; the message says what, why and what to do."""


def say(text: str) -> None:
    """Print one line at once."""
    print(text, flush=True)


@contextlib.contextmanager
def step(what: str, about: str = "") -> Iterator[None]:
    """Print `what` at the start, with its usual duration, and at the end with the real one."""
    say(f"{what}{f' (about {about})' if about else ''}")
    started = time.monotonic()
    yield
    say(f"{what}: done in {time.monotonic() - started:.0f} s")


def run(
    command: Sequence[str | Path],
    *,
    log: str,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a program with its output in the log file `log`; raise `StepError` with the log's end when it fails."""
    path = state.state_folder("logs") / f"{log}.log"
    words = [str(word) for word in command]
    with path.open("w") as file:
        file.write(f"$ {' '.join(words)}\n")
        file.flush()
        status = subprocess.run(
            words, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd, check=False,
            env=None if environment is None else {**os.environ, **environment},
        ).returncode  # fmt: skip
    if status != 0:
        tail = "\n".join(path.read_text(errors="replace").splitlines()[-TAIL_LINES:])
        raise StepError(f"{words[0]} ended with {status}. The end of {path}:\n{tail}")


def succeeds(command: Sequence[str | Path], *, timeout_seconds: float = 30) -> bool:
    """Tell whether a program exists and ends with 0 within the time."""
    return output(command, timeout_seconds=timeout_seconds) is not None


def output(command: Sequence[str | Path], *, timeout_seconds: float = 30) -> str | None:
    """Return what a program prints, or None when it is missing, fails or is late."""
    try:
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=timeout_seconds,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def need_programs(packages: Mapping[str, str]) -> None:
    """Install the Debian packages of missing programs (`program: package`), after saying so."""
    missing = sorted({package for program, package in packages.items() if shutil.which(program) is None})
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise StepError(
            f"these are missing here: {', '.join(missing)}. Install them, or run as root on Debian or Ubuntu, "
            "where they are installed for you; or set BASE_IMAGE and have a Docker engine run."
        )
    with step(f"installing the Debian packages {' '.join(missing)}", "20 s"):
        install = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=600", "install", "--no-install-recommends"]
        environment = {"DEBIAN_FRONTEND": "noninteractive"}
        try:
            run([*install, *missing], log="apt-install", environment=environment)
        except StepError:  # a machine that has never fetched the package lists, or old ones
            run(["apt-get", "-q", "-o", "DPkg::Lock::Timeout=600", "update"], log="apt-update")
            run([*install, *missing], log="apt-install", environment=environment)


def python() -> str:
    """Return the interpreter that this process runs on."""
    return sys.executable or "python3"
