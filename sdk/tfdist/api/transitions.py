"""What of a job cannot change once it has started: rules that the API server checks on every update.

A job has started when the controller has stored `status.attempt`, which it does before it creates anything; until
then everything may change, so that a job that waits as `Invalid` or suspended can be mended in place.
"""

from typing import Any, Final

_NOT_STARTED: Final = "!has(oldSelf.status) || !has(oldSelf.status.attempt)"
_REMEDY: Final = "cannot change once the job has started; delete the job and create it anew"


def _rule(rule: str, message: str, path: str) -> dict[str, Any]:
    return {"rule": rule, "message": message, "fieldPath": path, "reason": "FieldValueForbidden"}


def _fixed(path: str) -> dict[str, Any]:
    """Return the rule that a field, which is always set, stays as it is after the start."""
    return _rule(f"{_NOT_STARTED} || self.{path} == oldSelf.{path}", f"{path} {_REMEDY}", f".{path}")


def _presence(role: str) -> dict[str, Any]:
    return _rule(
        f"{_NOT_STARTED} || has(self.spec.{role}) == has(oldSelf.spec.{role})",
        f"{role} can neither be added nor removed once the job has started; delete the job and create it anew",
        f".spec.{role}",
    )


def _replicas(role: str) -> dict[str, Any]:
    """Return the rule that a role, which may be absent, keeps its number of replicas after the start."""
    return _rule(
        f"{_NOT_STARTED} || !has(self.spec.{role}) || !has(oldSelf.spec.{role}) || "
        f"self.spec.{role}.replicas == oldSelf.spec.{role}.replicas",
        f"{role}.replicas {_REMEDY}",
        f".spec.{role}.replicas",
    )


_WORKERS: Final = _rule(
    f"{_NOT_STARTED} || !has(self.spec.worker) || !has(oldSelf.spec.worker) || "
    "self.spec.worker.replicas == oldSelf.spec.worker.replicas || "
    "has(self.spec.elastic) || oldSelf.spec.runPolicy.suspend || self.spec.runPolicy.suspend",
    "worker.replicas of a running job changes only with elastic: suspend the job (runPolicy.suspend: true), "
    "change it, and resume",
    ".spec.worker.replicas",
)
_DIRECTORY: Final = _rule(
    f"{_NOT_STARTED} || (has(self.spec.checkpoint) == has(oldSelf.spec.checkpoint) && "
    "(!has(self.spec.checkpoint) || self.spec.checkpoint.directory == oldSelf.spec.checkpoint.directory))",
    f"checkpoint.directory {_REMEDY}",
    ".spec.checkpoint.directory",
)
_MANAGER: Final = _rule(
    "has(self.spec.runPolicy.managedBy) == has(oldSelf.spec.runPolicy.managedBy) && "
    "(!has(self.spec.runPolicy.managedBy) || self.spec.runPolicy.managedBy == oldSelf.spec.runPolicy.managedBy)",
    "runPolicy.managedBy cannot change, so that two controllers never run one job; delete the job and create it anew",
    ".spec.runPolicy.managedBy",
)

TRANSITION_RULES: Final = (
    _fixed("spec.strategy"),
    _fixed("spec.task"),
    *(_presence(role) for role in ("chief", "worker", "ps", "evaluator")),
    *(_replicas(role) for role in ("chief", "ps", "evaluator")),
    _WORKERS,
    _DIRECTORY,
    _MANAGER,
    _fixed("spec.scheduling.gang"),
)
"""In `x-kubernetes-validations` of the whole resource."""
