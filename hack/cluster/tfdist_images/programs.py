"""Programs of this machine: what they print, and installing those that are missing."""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tfdist_cluster import console, shell
from tfdist_cluster.errors import ClusterError, CommandError

LOCK_WAIT_SECONDS: Final = 600
"""How long another apt or dpkg may hold its locks."""


def output(command: Sequence[str | Path], *, timeout_seconds: float = 30) -> str | None:
    """Return what a program prints, or None if it is missing, fails or times out."""
    try:
        return shell.run(command, timeout_seconds=timeout_seconds)
    except ClusterError:
        return None


def need(packages: Mapping[str, str]) -> None:
    """Install the Debian packages of missing programs (`program: package`), and print their names."""
    path = shell.environment()["PATH"]
    missing = sorted({package for program, package in packages.items() if shutil.which(program, path=path) is None})
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(
            f"missing here: {', '.join(missing)}. Install them; as root on Debian or Ubuntu that is done for you. "
            "Or let a Docker engine build: start one that can pull images, or set BASE_IMAGE to an image it has."
        )
    with console.step(f"install {' '.join(missing)} with apt-get (system-wide)", expected_seconds=20):
        try:
            apt_get("install", "--yes", "--no-install-recommends", *missing)
        except CommandError:  # a machine that has never fetched the package lists, or has old ones
            apt_get("update")
            apt_get("install", "--yes", "--no-install-recommends", *missing)


def apt_get(*arguments: str, cwd: Path | None = None) -> None:
    """Run apt-get without questions; wait while another process holds one of its locks."""
    options = ["-q", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_SECONDS}"]
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            shell.run(["apt-get", *options, *arguments], env={"DEBIAN_FRONTEND": "noninteractive"}, cwd=cwd)
        except CommandError as error:
            # The lock of the package lists is not covered by the option above.
            if "Could not get lock" not in error.output or time.monotonic() > deadline:
                raise
            time.sleep(2)
        else:
            return
