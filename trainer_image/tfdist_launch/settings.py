"""What a launcher is told, from the environment and its own command line."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pydantic

from tfdist.contract import JOB_ENV, LAUNCH_PORT, LAUNCH_PORT_ENV, LaunchSettings, ReplicaJob, Role
from tfdist_trainer.errors import UsageError

PARAMETER_SERVER: Final = "ParameterServer"
LARGEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Place:
    """This launcher's place in its gang."""

    job: ReplicaJob
    launch: LaunchSettings
    port: int
    """To listen on, where it leads."""

    @property
    def standby(self) -> bool:
        """Whether each replica keeps the program of the next round ready."""
        return bool(self.launch.standby)

    @property
    def alone(self) -> frozenset[Role]:
        """Roles of which each replica is started again by itself."""
        return frozenset({Role.WORKER}) if self.job.strategy == PARAMETER_SERVER else frozenset()


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    command: tuple[str, ...]
    cold: bool


def has_gang(environ: Mapping[str, str]) -> bool:
    """Return whether this replica is told of a gang to be launched; quick, and silent about what is wrong."""
    try:
        return bool(json.loads(environ.get(JOB_ENV, "{}")).get("launch"))
    except (ValueError, AttributeError):
        return False


def read_place(environ: Mapping[str, str]) -> Place:
    """Return this launcher's place.

    Raises:
        UsageError: the environment does not say it.
    """
    try:
        job = ReplicaJob.model_validate_json(environ.get(JOB_ENV, ""))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "its JSON"
        raise UsageError(f"{JOB_ENV}: {where}: {first['msg']}") from None
    launch = job.launch
    if launch is None:
        raise UsageError(f"{JOB_ENV}: launch: there is none, and so no gang to be launched")
    if (launch.seat == 0) != (launch.gang is not None):
        raise UsageError(f"{JOB_ENV}: launch.gang: the launcher at seat 0, which leads, is told of it, and no other")
    text = environ.get(LAUNCH_PORT_ENV, "") or str(LAUNCH_PORT)
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST_PORT:
        raise UsageError(f"{LAUNCH_PORT_ENV}: {text!r} is not a port; give a number from 1 to {LARGEST_PORT}")
    return Place(job=job, launch=launch, port=int(text))


def parse(arguments: Sequence[str]) -> Options:
    """Return the command line; exits as argparse does when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="tfdist-launch",
        description="Run a replica's program, and start it again in place together with those of its gang.",
    )
    parser.add_argument("--cold", action="store_true", help="start the command anew each time, from no warm process")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program, such as: python train.py --fast")
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("name a command, such as: tfdist-launch -- python train.py")
    return Options(command=tuple(command), cold=options.cold)
