"""The outcome of a job, from its status: root cause and exit code."""

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, from_json

from tfdist.api.base import ApiModel
from tfdist.api.status import ConditionType, JobCondition, JobPhase, ReplicaFailure, TFDistJobStatus
from tfdist.reasons import ConditionReason

Model = TypeVar("Model", bound=ApiModel)

DEADLINE_EXCEEDED: Final = 124
"""Exit code of a job that exceeded a deadline, the same as `timeout(1)` returns."""

_DEADLINES: Final = frozenset(
    {
        ConditionReason.ACTIVE_DEADLINE_EXCEEDED,
        ConditionReason.EVALUATION_DEADLINE_EXCEEDED,
        ConditionReason.START_DEADLINE_EXCEEDED,
    }
)


def read_status(stored: Mapping[str, Any]) -> TFDistJobStatus:
    """Return the stored status of a job, as `readable`."""
    return readable(TFDistJobStatus, stored)


@lru_cache(maxsize=4)
def read_status_json(stored: bytes) -> TFDistJobStatus:
    """Return the stored status of a job, given as JSON, as `readable`.

    The last ones are kept: a write reads the same status as the plan that it is from.
    """
    try:
        return TFDistJobStatus.model_validate_json(stored, extra="ignore")
    except ValidationError:
        return read_status(from_json(stored))


def readable(model: type[Model], stored: Mapping[str, Any]) -> Model:
    """Return a stored status, without the fields and items of another version that this one cannot read."""
    remaining = dict(stored)
    while True:
        try:
            return model.model_validate(remaining, extra="ignore")
        except ValidationError as error:
            remaining = copy.deepcopy(remaining)
            unreadable = dict.fromkeys(map(_unreadable, error.errors()))
            for location in reversed(unreadable):  # of a list, the last items first
                if not any(location[:end] in unreadable for end in range(len(location))):
                    _remove(remaining, location)


def _unreadable(problem: ErrorDetails) -> tuple[int | str, ...]:
    """Return the location of a value that cannot be read; for a missing value, of the object that lacks it."""
    return problem["loc"][:-1] if problem["type"] == "missing" else problem["loc"]


def _remove(status: dict[str, Any], location: tuple[int | str, ...]) -> None:
    parent: Any = status
    try:
        for part in location[:-1]:
            parent = parent[part]
        del parent[location[-1]]
    except (LookupError, TypeError):
        status.pop(str(location[0]), None)


def find_condition(status: TFDistJobStatus, kind: ConditionType) -> JobCondition | None:
    """Return the stored condition of a type; None without one."""
    for item in status.conditions or ():
        if item.type is kind:
            return item
    return None


def root_cause(status: TFDistJobStatus) -> ReplicaFailure | None:
    """Return the last failure that was the root cause of the end of an attempt."""
    return next((item for item in reversed(status.failures or []) if item.root_cause), None)


def exit_code(status: TFDistJobStatus) -> int:
    """Return the exit code for a job that has ended.

    It is 0 for one that succeeded, 124 for one that exceeded a deadline, otherwise the exit code of the replica which
    failed the job; 1 if there is none, or if it ended with 0 too early.
    """
    if status.phase is JobPhase.SUCCEEDED:
        return 0
    failed = find_condition(status, ConditionType.FAILED)
    if failed is not None and failed.reason in _DEADLINES:
        return DEADLINE_EXCEEDED
    cause = root_cause(status)
    return (cause.exit_code if cause else None) or 1
