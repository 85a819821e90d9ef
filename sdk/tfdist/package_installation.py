"""How the packages of `training.requirements` are installed: the options of pip, in every image the same."""

from typing import Final

MODULE: Final = "tfdist_trainer.install"
"""Program of the trainer's image that installs them, and explains an error of pip."""

LOCK: Final = "tfdist-requirements.txt"
"""File in the code of a job that `tfdist submit --requirements` writes."""

_TIMEOUT_SECONDS: Final = 10
_RETRIES: Final = 2
"""Together less than a minute, in which an index without a network to it is an error."""


def pip_arguments(requirements: str, target: str) -> list[str]:
    """Return the arguments of Python that install the wheels of a file of requirements, each with a hash, in a folder.

    What an interrupted call has left in the folder is replaced (`--upgrade`).
    """
    return [
        "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off",
        f"--timeout={_TIMEOUT_SECONDS}", f"--retries={_RETRIES}", "--no-cache-dir",
        "--require-hashes", "--no-deps", "--only-binary=:all:", "--upgrade",
        "--target", target, "--requirement", requirements,
    ]  # fmt: skip
