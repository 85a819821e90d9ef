"""Reads the environment of this replica, `TFDIST_JOB` and `TF_CONFIG`, once into a frozen `GangMember`.

`TF_CONFIG` defines the participants of collectives; `TFDIST_JOB` contains everything else. The two are checked
against each other here, and nowhere later.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pydantic

from tfdist.contract import JOB_ENV, REPORT_PORT, REPORT_PORT_ENV, TF_CONFIG_ENV, ReplicaJob, Role, Task
from tfdist_trainer.errors import ConfigurationError, UsageError

GANG_ROLES: Final = (Role.CHIEF.value, Role.WORKER.value)
"""Roles of a `MultiWorkerMirrored` cluster, in the order in which TensorFlow numbers the replicas
(`tensorflow/python/distribute/multi_worker_util.py`, `id_in_cluster`)."""

PARAMETER_SERVER: Final = "ParameterServer"
ASYNCHRONOUS_ROLES: Final = (*GANG_ROLES, Role.PS.value)
"""Roles of a `ParameterServer` cluster."""

ROUND_ENV: Final = "TFDIST_ROUND"
"""Environment variable with the number of in-place restarts of this gang so far; absent without a launcher."""


@dataclass(frozen=True, slots=True)
class GangMember:
    """This replica as a member of its gang. `rank` 0 is the chief: it decides, and only it writes."""

    job: ReplicaJob
    rank: int
    size: int
    addresses: tuple[str, ...]
    """`host:port` of every member in order of rank; empty for a single replica."""
    cluster: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of an asynchronous gang: `host:port` of each replica of each role. Its chief trains as a gang of one, and
    schedules its steps on the workers."""
    round: int = 0
    """Number of in-place restarts of this gang so far."""

    @property
    def is_chief(self) -> bool:
        """Whether this member decides and writes for the gang."""
        return self.rank == 0

    @property
    def is_server(self) -> bool:
        """Whether this member is a worker or parameter server, driven by the chief of an asynchronous gang."""
        return bool(self.cluster) and not self.is_chief

    def place_of(self, rank: int) -> tuple[Role, int]:
        """Return role and index of the member with this `rank` in a synchronous training gang."""
        chiefs = self.job.replicas.get(Role.CHIEF, 0)
        return (Role.CHIEF, rank) if rank < chiefs else (Role.WORKER, rank - chiefs)


def read_member(environ: Mapping[str, str]) -> GangMember:
    """Return this replica's `GangMember` from its environment.

    Raises:
        UsageError: `TFDIST_JOB` is absent or not a valid `ReplicaJob`.
        ConfigurationError: `TF_CONFIG` contradicts it or names roles that cannot train together.
    """
    member, text = _read_place(environ), environ.get(ROUND_ENV, "")
    if not text.isdecimal():  # the job has launcher settings, but no launcher has started this process
        return replace(member, job=member.job.model_copy(update={"launch": None}))
    return replace(member, round=int(text))


def read_replica(environ: Mapping[str, str]) -> tuple[ReplicaJob, int]:
    """Return the settings of this replica and its number of in-place restarts, whatever `TF_CONFIG` contains.

    Raises:
        UsageError: `TFDIST_JOB` is absent or not a valid `ReplicaJob`.
    """
    text = environ.get(ROUND_ENV, "")
    return _read_job(environ.get(JOB_ENV)), int(text) if text.isdecimal() else 0


def _read_place(environ: Mapping[str, str]) -> GangMember:
    job = _read_job(environ.get(JOB_ENV))
    if job.role is Role.EVALUATOR:
        # TF_CONFIG describes the training cluster, which the evaluator must not join: the cluster does not expect it.
        return GangMember(job=job, rank=0, size=1, addresses=())
    asynchronous = job.strategy == PARAMETER_SERVER and job.task is Task.TRAIN
    roles = ASYNCHRONOUS_ROLES if asynchronous else GANG_ROLES
    cluster, task = _read_tf_config(environ.get(TF_CONFIG_ENV), roles)
    if not cluster:
        if job.strategy in {"MultiWorkerMirrored", PARAMETER_SERVER} and sum(job.replicas.values()) > 1:
            raise ConfigurationError(
                f"{TF_CONFIG_ENV} is absent, but the gang has {job.replicas}: a {job.strategy} gang of several "
                "replicas needs it; check what created this pod"
            )
        return GangMember(job=job, rank=0, size=1, addresses=())
    role, index = task
    addresses = tuple(address for name in roles for address in cluster.get(name, ()))
    if asynchronous:
        _check_asynchronous(cluster)
        rank = addresses.index(cluster[role][index])
        return GangMember(job, rank, 1, addresses, {name: tuple(hosts) for name, hosts in cluster.items()})
    # TensorFlow numbers the chief first.
    rank = index if role == Role.CHIEF or Role.CHIEF not in cluster else index + len(cluster[Role.CHIEF])
    return GangMember(job=job, rank=rank, size=len(addresses), addresses=addresses)


def read_report_port(environ: Mapping[str, str]) -> int:
    """Return the report port; 0 disables the report server."""
    text = environ.get(REPORT_PORT_ENV, "") or str(REPORT_PORT)
    if not text.isdecimal() or int(text) > 65535:  # noqa: PLR2004  the largest port
        raise UsageError(f"{REPORT_PORT_ENV}: {text!r} is not a port; give a number from 0 (off) to 65535")
    return int(text)


def _read_job(text: str | None) -> ReplicaJob:
    if not text:
        raise UsageError(
            f"{JOB_ENV} is not set: the trainer runs as a replica of a TFDistJob, which sets it, or with --config FILE"
        )
    try:
        return ReplicaJob.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "its JSON"
        raise UsageError(f"{JOB_ENV}: {where}: {first['msg']}") from None


def _check_asynchronous(cluster: Mapping[str, list[str]]) -> None:
    counts = {role: len(cluster.get(role, ())) for role in ASYNCHRONOUS_ROLES}
    if counts[Role.CHIEF] != 1 or not counts[Role.WORKER] or not counts[Role.PS]:
        raise ConfigurationError(
            f"{TF_CONFIG_ENV}.cluster: strategy ParameterServer needs one chief, which coordinates, at least one "
            f"worker and at least one ps; there are {', '.join(f'{count} {role}' for role, count in counts.items())}"
        )


def _read_tf_config(text: str | None, roles: Sequence[str]) -> tuple[dict[str, list[str]], tuple[str, int]]:
    """Return (addresses by role, (own role, own index)); an absent variable gives an empty cluster."""
    if text is None:
        return {}, ("", 0)
    try:
        data: Any = json.loads(text)
        cluster = {str(role): [str(a) for a in addresses] for role, addresses in data["cluster"].items()}
        task = (str(data["task"]["type"]), int(data["task"]["index"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{TF_CONFIG_ENV}: not a cluster spec ({type(error).__name__}: {error}); leave it out for a single replica"
        ) from None
    # An evaluator or ps in this cluster would be counted as a member that never joins.
    if unknown := sorted(set(cluster) - set(roles)):
        raise ConfigurationError(
            f"{TF_CONFIG_ENV}.cluster: role {unknown[0]!r} cannot be in the cluster of this gang; "
            f"allowed are {', '.join(roles)}"
        )
    if not 0 <= task[1] < len(cluster.get(task[0], ())):
        raise ConfigurationError(f"{TF_CONFIG_ENV}.task: {task[0]} {task[1]} is not in its own cluster")
    return cluster, task
