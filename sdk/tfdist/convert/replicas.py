"""The replica types of a TFJob, each under the name that its role has in a TFDistJob."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tfdist.contract import Role
from tfdist.convert.result import CannotConvert, Json, Remark
from tfdist.convert.tfjob import MAIN_CONTAINER, ReplicaSpec, TFJob
from tfdist.validation import Problem

ROLES: Final = {
    "chief": Role.CHIEF,
    "master": Role.CHIEF,
    "worker": Role.WORKER,
    "ps": Role.PS,
    "evaluator": Role.EVALUATOR,
}
"""Roles by the replica type's name in lower case: the peer takes any letter case."""

_PATH: Final = "spec.tfReplicaSpecs"


class Restart(StrEnum):
    """When the peer starts a replica again."""

    ALWAYS = "Always"
    ON_FAILURE = "OnFailure"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


@dataclass(frozen=True, slots=True)
class Replicas:
    """The replicas of one type: `key` is its name in the TFJob, `template` its pod template as JSON."""

    key: str
    role: Role
    count: int
    restart: Restart
    template: Json

    @property
    def path(self) -> str:
        """The path of the replica type in the TFJob."""
        return f"{_PATH}.{self.key}"


def replica_types(job: TFJob, raw: Json, remark: Remark) -> list[Replicas]:
    """Return the replica types that run anything, in the order chief, worker, ps, evaluator.

    Raises:
        CannotConvert: with everything for which the peer, or TensorFlow, refuses the replicas.
    """
    specs = job.spec.tf_replica_specs
    problems = [*_together(specs), *(p for key, spec in specs.items() for p in _alone(key, spec))]
    if problems:
        raise CannotConvert(problems)
    found = [_replicas(key, spec, raw["spec"]["tfReplicaSpecs"][key], remark) for key, spec in specs.items()]
    running = [r for r in found if r.count]
    if not {r.role for r in running} & {Role.CHIEF, Role.WORKER}:
        raise CannotConvert([Problem(_PATH, "nothing trains: a Chief or Worker is needed, for only they finish a job")])
    order = list(Role)
    return sorted(running, key=lambda r: order.index(r.role))


def _together(specs: dict[str, ReplicaSpec]) -> Iterator[Problem]:
    """Yield what is wrong with the replica types beside each other."""
    if not specs:
        yield Problem(_PATH, "no replica type; give at least a Worker")
    keys = [key.lower() for key in specs]
    if {"chief", "master"} <= set(keys):
        yield Problem(_PATH, "Chief and Master are the same; keep one of them")
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        spellings = ", ".join(k for k in specs if k.lower() == key)
        yield Problem(_PATH, f"{spellings} are the same replica type; keep one of them")


def _alone(key: str, spec: ReplicaSpec) -> Iterator[Problem]:
    """Yield what is wrong with one replica type."""
    path = f"{_PATH}.{key}"
    role = ROLES.get(key.lower())
    if role is None:
        yield Problem(path, "unknown replica type; known are Chief, Master, Worker, PS and Evaluator")
    if spec.replicas < 0:
        yield Problem(f"{path}.replicas", f"cannot be negative; got {spec.replicas}")
    if role is Role.CHIEF and spec.replicas > 1:
        text = f"TensorFlow takes one {key.lower()}, not {spec.replicas}; set it to 1 and make the others workers"
        yield Problem(f"{path}.replicas", text)
    if spec.restart_policy and spec.restart_policy not in set(Restart):
        known = ", ".join(Restart)
        yield Problem(f"{path}.restartPolicy", f"{spec.restart_policy!r} is none of {known}")
    yield from _containers(f"{path}.template.spec.containers", spec)


def _containers(path: str, spec: ReplicaSpec) -> Iterator[Problem]:
    containers = spec.template.spec.containers
    if not containers:
        yield Problem(path, "required, and absent or empty")
    for i, container in enumerate(containers):
        if not container.image:
            yield Problem(f"{path}[{i}].image", "required, and absent or empty")
    if not any(c.name == MAIN_CONTAINER for c in containers):
        yield Problem(path, f"one container must be named {MAIN_CONTAINER}")


def _replicas(key: str, spec: ReplicaSpec, raw: Json, remark: Remark) -> Replicas:
    role, path = ROLES[key.lower()], f"{_PATH}.{key}"
    count = spec.replicas
    if count == 0:
        remark(f"{path}.replicas", f"0 replicas: the role {role} is left out")
    if key.lower() == "master" and count:
        remark(path, "is the role chief now, in TF_CONFIG too, where TensorFlow knows no master")
    if role is Role.EVALUATOR and count > 1:
        remark(f"{path}.replicas", f"TensorFlow takes one evaluator, not {count}; 1 is kept")
        count = 1
    restart = Restart(spec.restart_policy or Restart.NEVER)
    return Replicas(key, role, count, restart, raw.get("template", {}))
