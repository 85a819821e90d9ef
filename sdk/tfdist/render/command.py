"""Commands of the container `tensorflow` that a job does not write itself: the bundled trainer's, and a script's."""

from typing import Final

from tfdist.api.training import SCRIPT_SUFFIX, TrainingSpec
from tfdist.render.source import code_directory

LAUNCHER: Final = "tfdist-launch"
TRAINER_COMMAND: Final = ("python", "-m", "tfdist_trainer")
DEFAULT_COMMAND: Final = (LAUNCHER, "--", *TRAINER_COMMAND)
"""Command of the bundled trainer under the launcher; the launcher replaces itself by it if a replica has no gang."""


def script_command(training: TrainingSpec | None, *, own_image: bool) -> list[str]:
    """Return the command of `training.script` with its arguments; empty if the job has no script.

    The launcher runs it in the trainer's image only: an image of the user's need not have the launcher.

    Args:
        training: the job's `training`.
        own_image: whether the role has an image of the user's.
    """
    if training is None or training.script is None:
        return []
    launcher = () if own_image else (LAUNCHER, "--")
    return [*launcher, "python", *_target(training.script, training), *(training.args or ())]


def _target(script: str, training: TrainingSpec) -> list[str]:
    """Return the part of the command that names the file or module."""
    if not script.endswith(SCRIPT_SUFFIX):
        return ["-m", script]
    if script.startswith("/") or training.source is None:
        return [script]
    return [f"{code_directory(training.source)}/{script}"]
