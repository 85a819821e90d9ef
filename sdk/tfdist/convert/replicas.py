"""Converts the replica types of a TFJob to roles of a TFDistJob."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tfdist.contract import Role
from tfdist.convert.result import AddNote, CannotConvert, Json
from tfdist.convert.tfjob import MAIN_CONTAINER, ReplicaSpec, TFJob
from tfdist.validation import FieldError

ROLES: Final = {
    "chief": Role.CHIEF,
    "master": Role.CHIEF,
    "worker": Role.WORKER,
    "ps": Role.PS,
    "evaluator": Role.EVALUATOR,
}
"""Roles by the replica type's name in lower case: the training-operator accepts any letter case."""

_PATH: Final = "spec.tfReplicaSpecs"


class Restart(StrEnum):
    """Restart policy of a replica type."""

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


def replica_types(job: TFJob, raw: Json, add_note: AddNote) -> list[Replicas]:
    """Return the replica types with at least one replica, in the order chief, worker, ps, evaluator.

    Raises:
        CannotConvert: the training-operator, or TensorFlow, rejects the replicas; with every reason.
    """
    specs = job.spec.tf_replica_specs
    problems = [*_combined_problems(specs), *(p for key, spec in specs.items() for p in _replica_problems(key, spec))]
    if problems:
        raise CannotConvert(problems)
    replicas = [_replicas(key, spec, raw["spec"]["tfReplicaSpecs"][key], add_note) for key, spec in specs.items()]
    nonempty = [r for r in replicas if r.count]
    if not {r.role for r in nonempty} & {Role.CHIEF, Role.WORKER}:
        raise CannotConvert([FieldError(_PATH, "a Chief or Worker is required: only their success completes a job")])
    order = list(Role)
    return sorted(nonempty, key=lambda r: order.index(r.role))


def _combined_problems(specs: dict[str, ReplicaSpec]) -> Iterator[FieldError]:
    """Yield the problems of the replica types as a whole."""
    if not specs:
        yield FieldError(_PATH, "no replica type; give at least a Worker")
    keys = [key.lower() for key in specs]
    if {"chief", "master"} <= set(keys):
        yield FieldError(_PATH, "Chief and Master are the same; keep one of them")
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        spellings = ", ".join(k for k in specs if k.lower() == key)
        yield FieldError(_PATH, f"{spellings} are the same replica type; keep one of them")


def _replica_problems(key: str, spec: ReplicaSpec) -> Iterator[FieldError]:
    """Yield the problems of one replica type."""
    path = f"{_PATH}.{key}"
    role = ROLES.get(key.lower())
    if role is None:
        yield FieldError(path, "unknown replica type; supported are Chief, Master, Worker, PS and Evaluator")
    if spec.replicas < 0:
        yield FieldError(f"{path}.replicas", f"must not be negative; got {spec.replicas}")
    if role is Role.CHIEF and spec.replicas > 1:
        text = f"TensorFlow allows one {key.lower()}, got {spec.replicas}; set it to 1 and make the others workers"
        yield FieldError(f"{path}.replicas", text)
    if spec.restart_policy and spec.restart_policy not in set(Restart):
        options = ", ".join(Restart)
        yield FieldError(f"{path}.restartPolicy", f"{spec.restart_policy!r} is not one of {options}")
    yield from _containers(f"{path}.template.spec.containers", spec)


def _containers(path: str, spec: ReplicaSpec) -> Iterator[FieldError]:
    containers = spec.template.spec.containers
    if not containers:
        yield FieldError(path, "required value")
    for i, container in enumerate(containers):
        if not container.image:
            yield FieldError(f"{path}[{i}].image", "required value")
    if not any(c.name == MAIN_CONTAINER for c in containers):
        yield FieldError(path, f"one container must be named {MAIN_CONTAINER}")


def _replicas(key: str, spec: ReplicaSpec, raw: Json, add_note: AddNote) -> Replicas:
    role, path = ROLES[key.lower()], f"{_PATH}.{key}"
    count = spec.replicas
    if count == 0:
        add_note(f"{path}.replicas", f"0 replicas: the role {role} is left out")
    if key.lower() == "master" and count:
        add_note(path, "becomes the role chief, also in TF_CONFIG: TensorFlow has no role master")
    if role is Role.EVALUATOR and count > 1:
        add_note(f"{path}.replicas", f"TensorFlow allows one evaluator, got {count}; 1 is kept")
        count = 1
    restart = Restart(spec.restart_policy or Restart.NEVER)
    return Replicas(key, role, count, restart, raw.get("template", {}))
