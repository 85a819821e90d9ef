"""`python -m tfdist_demo.on_this_machine [FILE]`: the demonstration as processes of this machine, without a cluster.

Run by the environment that `make setup` makes, which has the command and the trainer.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tfdist_cluster import console, content
from tfdist_cluster.errors import ClusterError
from tfdist_demo import data, manifests

EXAMPLE: Final = Path("examples", "fashion_mnist.yaml")
STATE: Final = Path(".tfdist")
VOLUME: Final = STATE / manifests.CLAIM
"""What stands for the claim of the demonstration on a cluster, with the same content."""

WELCOME: Final = "TFDist without a cluster: {file} as processes of this machine. Ctrl-C stops them."


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the data and become the run; return only where that fails."""
    parser = argparse.ArgumentParser(prog="tfdist_demo.on_this_machine", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=EXAMPLE, help=f"the job (default: {EXAMPLE})")
    options = parser.parse_args(arguments)
    try:
        console.say(WELCOME.format(file=options.file))
        command = [sys.executable, "-m", "tfdist.cli", "run", "--local", str(options.file)]
        if wants_data(options.file):
            prepare(VOLUME)
            command += ["--volume", f"{manifests.CLAIM}={VOLUME}"]
    except ClusterError as error:
        console.say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    # Ctrl-C, and what it leads to, is the affair of the command, which this process becomes
    return os.execv(command[0], command)  # noqa: S606  no shell is needed


def wants_data(file: Path) -> bool:
    """Return whether a job's file speaks of the claim with Fashion-MNIST."""
    try:
        return f"claimName: {manifests.CLAIM}" in file.read_text(encoding="utf-8")
    except OSError as error:
        raise ClusterError(f"{file} cannot be read: {error.strerror}; EXAMPLE=FILE names another") from None


def prepare(volume: Path) -> None:
    """Have Fashion-MNIST in `volume`, converted as for the demonstration on a cluster.

    Raises:
        ClusterError: the data cannot be had.
    """
    module, kind, shards = data.CONVERTER
    key = content.digest(data.CONVERTER)

    def convert(folder: Path) -> None:
        command = [sys.executable, "-m", module, "--source", str(data.fetch()), "--out", str(folder)]
        made = subprocess.run([*command, "--format", kind, "--shards", shards], check=False, capture_output=True)
        if made.returncode:
            raise ClusterError(f"the data cannot be converted: {made.stderr.decode(errors='replace').strip()}")

    volume.mkdir(parents=True, exist_ok=True)
    if not content.is_current(volume / "data", key):
        with console.step("convert Fashion-MNIST", expected_seconds=10):
            content.publish(volume / "data", key, convert)


if __name__ == "__main__":
    sys.exit(main())
