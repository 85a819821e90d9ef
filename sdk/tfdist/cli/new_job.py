"""Jobs without a manifest: `tfdist submit --workers 4 -- python train.py`, `tfdist run --local train.py`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.training import SCRIPT_SUFFIX
from tfdist.cli.errors import CommandError
from tfdist.podspec.resources import NVIDIA_GPU

_PYTHON: Final = re.compile(r"python(3(\.\d+)?)?")
_MODULE: Final = "-m"
_NAME_CHARACTERS: Final = 40


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


def new_job(command: Sequence[str], options: NewJobOptions) -> dict[str, Any]:
    """Return the manifest of a job that runs a command in every worker; without a name it gets a prefix of one.

    Raises:
        CommandError: an option is malformed.
    """
    script = script_of(command)
    spec: dict[str, Any] = {"worker": {"replicas": 1 if options.workers is None else options.workers}}
    if options.image is not None:
        spec["image"] = options.image
    if script is None:
        spec["command"] = list(command)
    else:
        spec["training"] = {"script": script.target} | ({"args": list(script.arguments)} if script.arguments else {})
    if options.env:
        spec["env"] = [_variable(assignment) for assignment in options.env]
    if options.gpus is not None:
        spec["resources"] = {"limits": {NVIDIA_GPU: options.gpus}}
    stem = Path(script.target).stem if script else PurePath(command[0]).name
    name = {"name": options.name} if options.name else {"generateName": f"{job_name(stem)}-"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": name, "spec": spec}


def is_script(path: str) -> bool:
    """Return whether `path` is a Python script, and no manifest."""
    return path.endswith(SCRIPT_SUFFIX)


def script_job(path: str, arguments: Sequence[str], workers: int) -> dict[str, Any]:
    """Return the manifest of a job that runs a script in `workers` replicas, with `arguments`.

    An exception ends the job at once: there is nothing to resume from, and the user is there to correct it.

    Raises:
        CommandError: there is no such file.
    """
    script = Path(path)
    if not script.is_file():
        raise CommandError(f"{path}: no such file")
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": job_name(script.stem)},
        "spec": {
            "training": {"script": str(script.resolve()), **({"args": list(arguments)} if arguments else {})},
            "worker": {"replicas": workers},
            "runPolicy": {"backoffLimit": 0},
        },
    }


def job_name(stem: str) -> str:
    """Return a name of a job that resembles the name of a file."""
    words = re.findall("[a-z0-9]+", stem.lower())
    name = "-".join(words)[:_NAME_CHARACTERS].strip("-")
    return name if name[:1].isalpha() else f"script-{name}".rstrip("-")


def _variable(assignment: str) -> dict[str, str]:
    name, equals, value = assignment.partition("=")
    if not name or not equals:
        raise CommandError(f"--env {assignment}: write NAME=VALUE")
    return {"name": name, "value": value}
