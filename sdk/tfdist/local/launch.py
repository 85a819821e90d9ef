"""Replicas under the launcher (`tfdist-launch`), which starts a gang again in place when one of them dies.

The one place that knows of it: what a gang's launchers are told, and how a replica's command becomes theirs. They keep
the limits and delays of a cluster (docs/failures.md); past them each ends with the code of the root cause. Without
them the first failure ends a local run, and a command that names the launcher, as the bundled trainer's does, is run
without it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import PurePath
from typing import Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.local.ports import LOCAL_HOST
from tfdist.local.process import ReplicaPlan
from tfdist.render.defaults import LAUNCHER
from tfdist.render.gang import Gang, Member
from tfdist.render.launch import settings_of
from tfdist.render.names import hostname

MODULE: Final = "tfdist_launch"
_COLD: Final = "--cold"


def installed() -> bool:
    """Return whether replicas of this environment can have a launcher."""
    return find_spec(MODULE) is not None


def launched(
    job: TFDistJob, gang: Gang, replicas: Mapping[Member, ReplicaPlan], port: Callable[[str], int]
) -> tuple[ReplicaPlan, ...]:
    """Return the processes of a gang, each below a launcher.

    Args:
        job: the job.
        gang: the gang.
        replicas: its processes.
        port: returns the port of this machine for the launcher of a replica.
    """

    def port_of(member: Member) -> int:
        return port(hostname(member.role, member.index))

    told = settings_of(job, gang, f"{LOCAL_HOST}:{port_of(gang.leader)}")
    made = []
    for member, replica in replicas.items():
        options, command = _divided(replica.command)
        launch = told(member).model_dump(mode="json", by_alias=True, exclude_none=True)
        environment = {contract.LAUNCH_PORT_ENV: str(port_of(member))}
        launcher = ("python", "-m", MODULE, *options, "--", *command)
        made.append(_with(replica, launcher, _told(replica) | {"launch": launch}, environment))
    return tuple(made)


def unlaunched(replica: ReplicaPlan) -> ReplicaPlan:
    """Return a process without the launcher that its command may begin with."""
    told = _told(replica)
    told.pop("launch", None)
    return _with(replica, _divided(replica.command)[1], told)


def _divided(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the launcher's options, where a command begins with it, and the command below it."""
    if command and PurePath(command[0]).name == LAUNCHER:
        rest = tuple(command[1:])
    elif tuple(command[1:3]) == ("-m", MODULE):
        rest = tuple(command[3:])
    else:
        return (), tuple(command)
    options, rest = (rest[:1], rest[1:]) if rest[:1] == (_COLD,) else ((), rest)
    return options, rest[1:] if rest[:1] == ("--",) else rest


def _told(replica: ReplicaPlan) -> dict[str, object]:
    told: dict[str, object] = json.loads(replica.environment[contract.JOB_ENV])
    return told


def _with(
    replica: ReplicaPlan, command: Sequence[str], told: Mapping[str, object], more: Mapping[str, str] | None = None
) -> ReplicaPlan:
    text = json.dumps(told, sort_keys=True, separators=(",", ":"))
    environment = {**replica.environment, contract.JOB_ENV: text, **(more or {})}
    return replace(replica, command=tuple(command), environment=environment)
