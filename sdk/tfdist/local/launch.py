"""Replicas under the launcher (`tfdist-launch`), which restarts a gang in place after a failure.

The only module of the local run that depends on the launcher: on its settings in `TFDIST_JOB`, and on its command,
which wraps the replica's. The launchers apply the limits and delays of a cluster (docs/failures.md); once a limit is
exceeded, each exits with the code of the root cause. Without launchers the first failure ends the run, and the launcher
is removed from a command that names it, such as that of the bundled trainer.
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
from tfdist.local.replica_plan import ReplicaPlan
from tfdist.render.defaults import LAUNCHER
from tfdist.render.gang import Gang, Member
from tfdist.render.launch import launch_settings
from tfdist.render.names import hostname

MODULE: Final = "tfdist_launch"
_COLD: Final = "--cold"


def installed() -> bool:
    """Return whether the launcher is installed in this Python environment."""
    return find_spec(MODULE) is not None


def with_launcher(
    job: TFDistJob, gang: Gang, replicas: Mapping[Member, ReplicaPlan], port: Callable[[str], int]
) -> tuple[ReplicaPlan, ...]:
    """Return the processes of a gang, each as the child of a launcher.

    Args:
        job: the job.
        gang: the gang.
        replicas: its processes without launchers.
        port: host name of a replica -> port of its launcher on this machine.
    """

    def port_of(member: Member) -> int:
        return port(hostname(member.role, member.index))

    settings = launch_settings(job, gang, f"{LOCAL_HOST}:{port_of(gang.leader)}")
    made = []
    for member, replica in replicas.items():
        options, command = _split_launcher(replica.command)
        launch = settings(member).model_dump(mode="json", by_alias=True, exclude_none=True)
        environment = {contract.LAUNCH_PORT_ENV: str(port_of(member))}
        launcher = ("python", "-m", MODULE, *options, "--", *command)
        made.append(_with_command(replica, launcher, _replica_job(replica) | {"launch": launch}, environment))
    return tuple(made)


def without_launcher(replica: ReplicaPlan) -> ReplicaPlan:
    """Return the process without the launcher that its command may begin with."""
    replica_job = _replica_job(replica)
    replica_job.pop("launch", None)
    return _with_command(replica, _split_launcher(replica.command)[1], replica_job)


def _split_launcher(command: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the launcher's options, empty for a command without it, and the command that it runs."""
    if command and PurePath(command[0]).name == LAUNCHER:
        rest = tuple(command[1:])
    elif tuple(command[1:3]) == ("-m", MODULE):
        rest = tuple(command[3:])
    else:
        return (), tuple(command)
    options, rest = (rest[:1], rest[1:]) if rest[:1] == (_COLD,) else ((), rest)
    return options, rest[1:] if rest[:1] == ("--",) else rest


def _replica_job(replica: ReplicaPlan) -> dict[str, object]:
    """Return the JSON of `TFDIST_JOB`."""
    replica_job: dict[str, object] = json.loads(replica.environment[contract.JOB_ENV])
    return replica_job


def _with_command(
    replica: ReplicaPlan,
    command: Sequence[str],
    replica_job: Mapping[str, object],
    more_env: Mapping[str, str] | None = None,
) -> ReplicaPlan:
    text = json.dumps(replica_job, sort_keys=True, separators=(",", ":"))
    environment = {**replica.environment, contract.JOB_ENV: text, **(more_env or {})}
    return replace(replica, command=tuple(command), environment=environment)
