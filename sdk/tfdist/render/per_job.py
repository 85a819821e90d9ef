"""Values that derive from the specification of a job, computed once for as long as the job is in memory.

A specification is immutable, so that what follows from it is the same in each plan. The cache holds no job: an entry
ends with its job.
"""

import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

from tfdist.api.v1 import TFDistJob

T = TypeVar("T")


class PerJob(Generic[T]):
    """Values by job. Jobs count as different if they are different objects, even equal ones."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ref[TFDistJob], T]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, job: TFDistJob, compute: Callable[[TFDistJob], T]) -> T:
        """Return the value of a job, which `compute` returns for the first call."""
        # By identity: to hash or compare a specification would cost more than most of its values.
        entry = self._entries.get(id(job))
        if entry is not None and entry[0]() is job:
            return entry[1]
        key, value = id(job), compute(job)
        self._entries[key] = weakref.ref(job, lambda _: self._entries.pop(key, None)), value
        return value
