"""`python -m tfdist_demo.on_this_machine [FILE]`: the demonstration as processes of this machine, without a cluster.

Run by the environment that `make setup` makes, which has the command and the trainer.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tfdist_cluster import console, content
from tfdist_cluster.errors import ClusterError
from tfdist_demo import data, example_data, manifests
from tfdist_demo.volume import Contents

EXAMPLE: Final = Path("examples", "fashion_mnist.yaml")
STATE: Final = Path(".tfdist")
CONTENTS: Final[Mapping[str, Callable[[], Contents]]] = {
    manifests.CLAIM: data.contents,
    manifests.EXAMPLES_CLAIM: example_data.contents,
}
"""What the volumes of the demonstration on a cluster hold, and here the folders that stand for them."""

WELCOME: Final = "TFDist without a cluster: {file} as processes of this machine. Ctrl-C stops them."


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the data and replace this process by the run; return only on failure."""
    parser = argparse.ArgumentParser(prog="tfdist_demo.on_this_machine", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=EXAMPLE, help=f"file or folder (default: {EXAMPLE})")
    options = parser.parse_args(arguments)
    try:
        console.info(WELCOME.format(file=options.file))
        command = [sys.executable, "-m", "tfdist.cli", "run", "--local", str(options.file)]
        for claim in claims(options.file):
            folder = STATE / "demo" / claim
            fill(CONTENTS[claim](), folder)
            command += ["--volume", f"{claim}={folder}"]
    except ClusterError as error:
        console.info(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    # The command replaces this process and handles Ctrl-C itself
    return os.execv(command[0], command)  # noqa: S606  no shell is needed


def claims(example: Path) -> list[str]:
    """Return the claims of the demonstration that the manifests of an example use.

    Raises:
        ClusterError: there is no such example.
    """
    files = sorted(example.glob("*.yaml")) if example.is_dir() else [example]
    try:
        text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    except OSError as error:
        raise ClusterError(f"{example} cannot be read: {error.strerror}; EXAMPLE=FILE names another") from None
    names = set(re.findall(r"claimName: ([a-z0-9-]+)", text))
    return [claim for claim in CONTENTS if claim in names]


def fill(contents: Contents, folder: Path) -> None:
    """Fill `folder` like a volume of the demonstration, with the same commands, unless it is current.

    Raises:
        ClusterError: a command fails.
    """
    if content.is_current(folder, contents.mark):
        return
    content.key_file(folder).unlink(missing_ok=True)
    with console.step(f"prepare {contents.what}", expected_seconds=15), tempfile.TemporaryDirectory() as temporary:
        places = {"/volume": str(folder.absolute()), manifests.TMP: temporary}
        for name, source in contents.files.items():
            target = Path(here(contents.folder, places), name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        for command in contents.commands:
            completed = subprocess.run(
                [here(argument, places) for argument in command], check=False, capture_output=True
            )
            if completed.returncode:
                raise ClusterError(f"{' '.join(command)}: {completed.stderr.decode(errors='replace').strip()}")
    content.write_atomically(content.key_file(folder), contents.mark + "\n")


def here(argument: str, places: Mapping[str, str]) -> str:
    """Return a word of a command for a pod as it is on this machine: `places` stand for the pod's folders."""
    if argument == "python":
        return sys.executable
    prefix = next((pod for pod in places if argument == pod or argument.startswith(f"{pod}/")), None)
    return argument if prefix is None else places[prefix] + argument.removeprefix(prefix)


if __name__ == "__main__":
    sys.exit(main())
