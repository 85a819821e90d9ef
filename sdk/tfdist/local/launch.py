"""Replicas under the launcher (`tfdist-launch`), which starts a gang again in place when one of them dies.

The one place that knows of it: what a gang's launchers are told, and how a replica's command becomes theirs. They keep
the limits and delays of a cluster (docs/failures.md); past them each ends with the code of the root cause.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.local.ports import LOCAL_HOST
from tfdist.local.process import ReplicaPlan
from tfdist.render.gang import Gang, Member
from tfdist.render.launch import settings_of
from tfdist.render.names import hostname

MODULE: Final = "tfdist_launch"


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
    at = settings_of(job, gang, lambda m: f"{LOCAL_HOST}:{port(hostname(m.role, m.index))}")
    told = at.model_dump(mode="json", by_alias=True, exclude_none=True)
    made = []
    for member, replica in replicas.items():
        inside = json.loads(replica.environment[contract.JOB_ENV]) | {"launch": told}
        environment = {
            contract.JOB_ENV: json.dumps(inside, sort_keys=True, separators=(",", ":")),
            contract.LAUNCH_PORT_ENV: str(port(hostname(member.role, member.index))),
        }
        command = ("python", "-m", MODULE, "--", *replica.command)
        made.append(replace(replica, command=command, environment={**replica.environment, **environment}))
    return tuple(made)
