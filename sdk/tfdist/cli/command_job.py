"""Jobs without a manifest: `tfdist submit --workers 4 -- python train.py`, `tfdist run --local train.py`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from tfdist.api.training import SCRIPT_SUFFIX
from tfdist.cli import yaml_loader
from tfdist.cli.errors import CommandError, DocumentError
from tfdist.client.new_job import job_name, new_job

_PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")
_MODULE: Final = "-m"


@dataclass(frozen=True, slots=True)
class NewJobOptions:
    """Options of a command that stand for fields of a manifest; None if an option is not given."""

    name: str | None = None
    workers: int | None = None
    gpus: int | None = None
    image: str | None = None
    env: Sequence[str] = ()

    @property
    def given(self) -> list[str]:
        """The options that are given, except for the name, which a manifest may have too."""
        values = {"--workers": self.workers, "--gpus": self.gpus, "--image": self.image, "--env": self.env or None}
        return [option for option, value in values.items() if value is not None]


class Script(NamedTuple):
    """A Python script, or a module, with its arguments."""

    target: str
    arguments: tuple[str, ...]

    @property
    def training(self) -> dict[str, Any]:
        """Field `training` of a job that runs it."""
        return {"script": self.target} | ({"args": list(self.arguments)} if self.arguments else {})

    @property
    def is_relative_file(self) -> bool:
        """Whether it is a file that has to be packed."""
        return self.target.endswith(SCRIPT_SUFFIX) and not self.target.startswith("/")


def script_of(command: Sequence[str]) -> Script | None:
    """Return the script of `python X.py`, `python -m X` or `X.py`; None for any other command."""
    first, *arguments = command
    if first.endswith(SCRIPT_SUFFIX):
        return Script(PurePath(first).as_posix(), tuple(arguments))
    if not arguments or not _PYTHON.fullmatch(first):
        return None
    if arguments[0] == _MODULE and len(arguments) > 1:
        return Script(arguments[1], tuple(arguments[2:]))
    return (
        Script(PurePath(arguments[0]).as_posix(), tuple(arguments[1:]))
        if arguments[0].endswith(SCRIPT_SUFFIX)
        else None
    )


def command_job(command: Sequence[str], options: NewJobOptions) -> dict[str, Any]:
    """Return the manifest of a job that runs a command in every worker; without a name it gets a prefix of one.

    Raises:
        CommandError: an option is malformed.
    """
    script = script_of(command)
    runs = {"command": list(command)} if script is None else {"training": script.training}
    stem = Path(script.target).stem if script else PurePath(command[0]).name
    env = dict(map(_variable, options.env))
    return new_job(runs, options.name, stem, workers=options.workers, gpus=options.gpus, image=options.image, env=env)


def is_script(path: str) -> bool:
    """Return whether `path` is a Python script, and no manifest."""
    return path.endswith(SCRIPT_SUFFIX)


def script_job(path: str, arguments: Sequence[str], workers: int) -> dict[str, Any]:
    """Return the manifest of a job that runs a script in `workers` replicas, with `arguments`.

    An exception ends the job at once: there is nothing to resume from, and the user is there to correct it.

    Raises:
        CommandError: there is no such file.
    """
    file = Path(path)
    if not file.is_file():
        raise CommandError(f"{path}: no such file")
    script = Script(str(file.resolve()), tuple(arguments))
    policy = {"runPolicy": {"backoffLimit": 0}}
    return new_job({"training": script.training}, job_name(file.stem), file.stem, workers=workers, fields=policy)


def _variable(assignment: str) -> tuple[str, str]:
    name, equals, value = assignment.partition("=")
    if not name or not equals:
        raise CommandError(f"--env {assignment}: write NAME=VALUE")
    return name, value


def set_values(assignments: Sequence[str]) -> dict[str, Any]:
    """Return the values of `--set PATH=VALUE` by path; a value is read as in a manifest: `3`, `true`, `"3"`, `[1, 2]`.

    Raises:
        CommandError: there is no `=`, or the value is malformed.
    """
    return dict(map(_set_value, assignments))


def _set_value(assignment: str) -> tuple[str, Any]:
    path, equals, text = assignment.partition("=")
    if not path or not equals:
        raise CommandError(f"--set {assignment}: write PATH=VALUE, such as training.config.epochs=3")
    try:
        return path, next((value for value, _ in yaml_loader.load(text, "--set")), None)
    except DocumentError as error:
        raise CommandError(
            f"--set {assignment}: {error.message}; quote a value that is text: '{path}=\"...\"'"
        ) from None
