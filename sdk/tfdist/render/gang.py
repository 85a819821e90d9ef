"""Gangs: the replicas that form one TensorFlow cluster, start together, and end together.

A job has a training gang (chief, workers, parameter servers), or none with task `Evaluate`; an evaluator next to it,
which is a member of its own cluster only; and an evaluation gang after it, rendered like workers and led by member 0.
For TensorFlow the members of an evaluation gang are workers.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.contract import Role, Task, replica_name
from tfdist.render import names
from tfdist.render.per_job import PerJob
from tfdist.render.template import role_template, tensorflow_port

_WITHOUT_CLUSTER: Final = frozenset({Strategy.ONE_DEVICE, Strategy.MIRRORED, Strategy.INDEPENDENT})


class GangName(StrEnum):
    """The gangs of a job."""

    TRAINING = "training"
    EVALUATOR = "evaluator"
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class Member:
    """One replica of a gang."""

    role: Role
    index: int

    @property
    def name(self) -> str:
        """Name of the replica, as `worker-3`."""
        return replica_name(self.role, self.index)


@dataclass(frozen=True)
class Gang:
    """Replicas that start and end together; the first member leads. It has no slots: sizes are cached in it."""

    name: GangName
    task: Task
    members: tuple[Member, ...]

    @property
    def leader(self) -> Member:
        """The member that coordinates: the chief, otherwise worker 0."""
        return self.members[0]

    def all_run_text(self) -> str:
        """Return `all 2 replicas run`, or `the only replica runs`."""
        size = len(self.members)
        return "the only replica runs" if size == 1 else f"all {size} replicas run"

    def sizes(self) -> dict[str, int]:
        """Return the number of replicas by role."""
        return dict(self._sizes)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {str(role): number for role, number in Counter(member.role for member in self.members).items()}


_GANGS: Final[PerJob[tuple[Gang, ...]]] = PerJob()


def training_gang(job: TFDistJob) -> Gang:
    """Return the gang that trains: the chief, if there is one, the workers, and the parameter servers."""
    return Gang(GangName.TRAINING, Task.TRAIN, _members(job, Role.CHIEF, Role.WORKER, Role.PS))


def evaluator_gang(job: TFDistJob) -> Gang | None:
    """Return the evaluator that scores checkpoints during training, or None if the job has none."""
    members = _members(job, Role.EVALUATOR)
    return Gang(GangName.EVALUATOR, Task.EVALUATE, members) if members else None


def evaluation_gang(job: TFDistJob) -> Gang | None:
    """Return the gang that evaluates after training, or instead of it (task `Evaluate`); None if there is none."""
    if job.spec.task is Task.EVALUATE:
        members = tuple(Member(Role.EVALUATION, i) for i in range(job.spec.replicas(Role.WORKER)))
    else:
        members = _members(job, Role.EVALUATION)
    return Gang(GangName.EVALUATION, Task.EVALUATE, members) if members else None


def gangs(job: TFDistJob) -> tuple[Gang, ...]:
    """Return every gang of the job in start order."""
    return _GANGS.get(job, _gangs)


def _gangs(job: TFDistJob) -> tuple[Gang, ...]:
    training = None if job.spec.task is Task.EVALUATE else training_gang(job)
    return tuple(gang for gang in (training, evaluator_gang(job), evaluation_gang(job)) if gang)


def start_minimum(job: TFDistJob, gang: Gang) -> int:
    """Return how many replicas of a gang must start together: `minAvailable`, by default all that need each other."""
    size = len(gang.members)
    # Independent replicas do not wait for each other, so one alone can work.
    default = 1 if job.spec.strategy is Strategy.INDEPENDENT else size
    return min(job.spec.scheduling.min_available or default, size)


def addresses(job: TFDistJob, gang: Gang, cluster_domain: str = "") -> dict[str, list[str]]:
    """Return `host:port` of every member, by TensorFlow's name of the role."""
    ports = {role: tensorflow_port(role_template(job, role)) for role in {m.role for m in gang.members}}
    result: dict[str, list[str]] = {}
    for member in gang.members:
        address = names.address(job, member.role, member.index, ports[member.role], cluster_domain)
        result.setdefault(tensorflow_role(member.role), []).append(address)
    return result


def cluster_spec(job: TFDistJob, gang: Gang, cluster_domain: str = "") -> dict[str, list[str]]:
    """Return `cluster` of `TF_CONFIG`; empty for the strategies without a cluster.

    The evaluator's cluster has the training gang and the evaluator; no other cluster has the evaluator, because
    TensorFlow waits for every member of its cluster.
    """
    # TF_CONFIG with other members would make TensorFlow wait for them, and these strategies have none.
    if job.spec.strategy in _WITHOUT_CLUSTER:
        return {}
    gang_addresses = addresses(job, gang, cluster_domain)
    # The evaluator reads the cluster but is not in it: TensorFlow would wait for it at the rendezvous.
    if gang.name is GangName.EVALUATOR:
        return addresses(job, training_gang(job), cluster_domain) | gang_addresses
    return gang_addresses


def tensorflow_role(role: Role) -> str:
    """Return TensorFlow's name of a role in a cluster specification."""
    return str(Role.WORKER if role is Role.EVALUATION else role)


def _members(job: TFDistJob, *roles: Role) -> tuple[Member, ...]:
    return tuple(Member(role, i) for role in roles for i in range(job.spec.replicas(role)))
