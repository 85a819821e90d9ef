"""Immutable fields: rules that the API server evaluates on every update.

A job has started when the controller has stored `status.attempt`, a sweep when it has stored `status.startTime`, before
it creates any object. Until then everything may change, so that a job or sweep that is `Invalid` or suspended can be
corrected in place.
"""

from typing import Any, Final

_NOT_STARTED: Final = "!has(oldSelf.status) || !has(oldSelf.status.attempt)"
_REMEDY: Final = "is immutable once the job has started; delete and recreate the job"


def _rule(rule: str, message: str, path: str) -> dict[str, Any]:
    return {"rule": rule, "message": message, "fieldPath": path, "reason": "FieldValueForbidden"}


def _fixed(path: str) -> dict[str, Any]:
    """Return the rule that a field, which is always set, does not change after the start."""
    return _rule(f"{_NOT_STARTED} || self.{path} == oldSelf.{path}", f"{path} {_REMEDY}", f".{path}")


def _presence(role: str) -> dict[str, Any]:
    return _rule(
        f"{_NOT_STARTED} || has(self.spec.{role}) == has(oldSelf.spec.{role})",
        f"{role} cannot be added or removed once the job has started; delete and recreate the job",
        f".spec.{role}",
    )


def _replicas(role: str) -> dict[str, Any]:
    """Return the rule that the number of replicas of a role, which may be absent, does not change after the start."""
    return _rule(
        f"{_NOT_STARTED} || !has(self.spec.{role}) || !has(oldSelf.spec.{role}) || "
        f"self.spec.{role}.replicas == oldSelf.spec.{role}.replicas",
        f"{role}.replicas {_REMEDY}",
        f".spec.{role}.replicas",
    )


_WORKERS: Final = _rule(
    f"{_NOT_STARTED} || !has(self.spec.worker) || !has(oldSelf.spec.worker) || "
    "self.spec.worker.replicas == oldSelf.spec.worker.replicas || "
    "oldSelf.spec.runPolicy.suspend || self.spec.runPolicy.suspend",
    "worker.replicas of a running job is immutable; suspend the job (runPolicy.suspend: true), change it, and resume",
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
    "runPolicy.managedBy is immutable, so that two controllers never manage one job; delete and recreate the job",
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
"""Entries of `x-kubernetes-validations` of the whole resource."""


_SWEEP_NOT_STARTED: Final = "!has(oldSelf.status) || !has(oldSelf.status.startTime)"
_SWEEP_REMEDY: Final = (
    "is immutable once the sweep has started, so that its trials are comparable; delete and recreate the sweep"
)


def _fixed_in_sweep(path: str, same: str) -> dict[str, Any]:
    return _rule(f"{_SWEEP_NOT_STARTED} || ({same})", f"{path} {_SWEEP_REMEDY}", f".spec.{path}")


def _same(path: str) -> str:
    """Return in CEL whether an optional field below `spec` is unchanged."""
    new, old = f"self.spec.{path}", f"oldSelf.spec.{path}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"


SWEEP_TRANSITION_RULES: Final = (
    _fixed_in_sweep("metric", _same("metric")),
    _fixed_in_sweep("goal", _same("goal")),
    _fixed_in_sweep(
        "parameters",  # lists by name are equal in any order, and a grid depends on the order
        "self.spec.parameters == oldSelf.spec.parameters && "
        "self.spec.parameters.map(p, p.name) == oldSelf.spec.parameters.map(p, p.name)",
    ),
    _fixed_in_sweep("search.method", _same("search.method")),
    _fixed_in_sweep("search.seed", _same("search.seed")),
    _fixed_in_sweep(  # CEL has no field `list`, whose values have no type, but compares it as a part of `search`
        "search.list", "self.spec.search.method != 'List' || self.spec.search == oldSelf.spec.search"
    ),
    _fixed_in_sweep("template", "self.spec.template == oldSelf.spec.template"),
)
"""Entries of `x-kubernetes-validations` of a sweep."""
