"""Gangs: the replicas that start, run and restart together.

A job has a training gang (chief and workers) and, with evaluation after training, an evaluation gang of its own,
made like workers and led by its member 0. TensorFlow knows the members of an evaluation gang as workers.
"""

from dataclasses import dataclass
from enum import StrEnum

from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role, Task
from tfdist.render import names


class GangName(StrEnum):
    """The gangs of a job."""

    TRAINING = "training"
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class Member:
    """One replica of a gang."""

    role: Role
    index: int


@dataclass(frozen=True, slots=True)
class Gang:
    """The replicas that belong together, and the one whose success is the gang's."""

    name: GangName
    task: Task
    members: tuple[Member, ...]

    @property
    def leader(self) -> Member:
        """The member that decides and coordinates: the chief, else worker 0."""
        return self.members[0]

    def sizes(self) -> dict[str, int]:
        """Return the number of replicas by role."""
        roles = [member.role for member in self.members]
        return {str(role): roles.count(role) for role in dict.fromkeys(roles)}


def training_gang(job: TFDistJob) -> Gang:
    """Return the gang that trains: the chief, where there is one, and the workers."""
    chiefs = job.spec.chief.replicas if job.spec.chief else 0
    members = [Member(Role.CHIEF, i) for i in range(chiefs)]
    members += [Member(Role.WORKER, i) for i in range(job.spec.worker.replicas)]
    return Gang(GangName.TRAINING, Task.TRAIN, tuple(members))


def evaluation_gang(job: TFDistJob) -> Gang | None:
    """Return the gang that evaluates after training, or None where the job wants none."""
    evaluation = job.spec.evaluation
    if evaluation is None or evaluation.mode == "None":
        return None
    size = evaluation.replicas or len(training_gang(job).members)
    members = tuple(Member(Role.EVALUATION, i) for i in range(size))
    return Gang(GangName.EVALUATION, Task.EVALUATE, members)


def gangs(job: TFDistJob) -> tuple[Gang, ...]:
    """Return every gang of the job in the order in which they run."""
    evaluation = evaluation_gang(job)
    return (training_gang(job), evaluation) if evaluation else (training_gang(job),)


def addresses(job: TFDistJob, gang: Gang, port: int) -> dict[str, list[str]]:
    """Return `host:port` of every member by the role's name in TensorFlow: the gang's cluster spec."""
    result: dict[str, list[str]] = {}
    for member in gang.members:
        role = tensorflow_role(member.role)
        result.setdefault(role, []).append(names.address(job, member.role, member.index, port))
    return result


def tensorflow_role(role: Role) -> str:
    """Return what TensorFlow calls a role in a cluster spec."""
    return str(Role.WORKER if role is Role.EVALUATION else role)
