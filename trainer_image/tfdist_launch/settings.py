"""The settings of a launcher, from its environment and its command line."""

import argparse
import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

import pydantic

from tfdist.contract import JOB_ENV, LAUNCH_KEY_ENV, LAUNCH_PORT, LAUNCH_PORT_ENV, LaunchSettings, ReplicaJob, Role
from tfdist_launch.handshake import attempt_token
from tfdist_trainer.errors import UsageError

PARAMETER_SERVER: Final = "ParameterServer"
MAX_PORT: Final = 65535
_GANG: Final = "training"
"""The only gang with launchers."""


@dataclass(frozen=True, slots=True)
class LauncherSettings:
    """The settings from the environment."""

    job: ReplicaJob
    launch: LaunchSettings
    token: str
    """Token of this attempt, by which the launchers authenticate each other; it is derived from the key of the job."""
    port: int
    """The port of the leader's server."""

    @property
    def standby(self) -> bool:
        """Whether each replica keeps a standby process for the next round."""
        return bool(self.launch.standby)

    @property
    def independent_roles(self) -> frozenset[Role]:
        """Roles whose replicas restart alone."""
        return frozenset({Role.WORKER}) if self.job.strategy == PARAMETER_SERVER else frozenset()


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    command: tuple[str, ...]
    cold: bool


def has_launch_settings(environ: Mapping[str, str]) -> bool:
    """Return whether the environment has the settings of a gang; quick, and False for an invalid environment."""
    try:
        return bool(json.loads(environ.get(JOB_ENV, "{}")).get("launch"))
    except (ValueError, AttributeError):
        return False


def take_key(environ: MutableMapping[str, str]) -> str:
    """Return the key of the launchers, "" for none, and remove it from the environment: no program needs it."""
    return environ.pop(LAUNCH_KEY_ENV, "")


def read_settings(environ: Mapping[str, str], key: str) -> LauncherSettings:
    """Return the settings from the environment, and the token that is derived from `key`.

    Raises:
        UsageError: the environment is incomplete or invalid.
    """
    try:
        job = ReplicaJob.model_validate_json(environ.get(JOB_ENV, ""))
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "its JSON"
        raise UsageError(f"{JOB_ENV}: {where}: {first['msg']}") from None
    launch = job.launch
    if launch is None:
        raise UsageError(f"{JOB_ENV}: launch: is missing, so there is no gang to launch")
    # Two leaders, or none, would end in a wait without an error.
    if (launch.rank == 0) != (launch.gang is not None):
        raise UsageError(f"{JOB_ENV}: launch.gang: must be set for the launcher of rank 0, the leader, and no other")
    # Authentication is never omitted (ADR 32).
    if not key:
        raise UsageError(f"{LAUNCH_KEY_ENV}: is missing; the controller takes it from the job's Secret")
    text = environ.get(LAUNCH_PORT_ENV, "") or str(LAUNCH_PORT)
    if not text.isdecimal() or not 1 <= int(text) <= MAX_PORT:
        raise UsageError(f"{LAUNCH_PORT_ENV}: {text!r} is not a port; give a number from 1 to {MAX_PORT}")
    token = attempt_token(key, _GANG, launch.gang_attempt, job.uid)
    return LauncherSettings(job=job, launch=launch, token=token, port=int(text))


def parse(arguments: Sequence[str]) -> Options:
    """Return the options of the command line; exits like argparse if they are invalid."""
    parser = argparse.ArgumentParser(
        prog="tfdist-launch",
        description="Run a replica's training process, and restart it in place together with its gang.",
    )
    parser.add_argument(
        "--cold",
        action="store_true",
        help="start a new interpreter for each round, without a fork server",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command, such as: python train.py --fast")
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("give a command, such as: tfdist-launch -- python train.py")
    return Options(command=tuple(command), cold=options.cold)
