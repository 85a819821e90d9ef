"""Which jobs write to a directory, and which of them comes first: the others wait for it (ADR 31)."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from tfdist.render.written_directories import StorageLocation
from tfdist_operator.kube.keys import NamespacedName

Rank = tuple[bool, str, str]
"""Sorts the jobs of a directory: those whose training has begun, then by age."""
_Place = tuple[str, StorageLocation]
_First = tuple[NamespacedName, Rank]


class WrittenDirectories:
    """The jobs by namespace and location that they write.

    A change of a job costs the number of jobs in a directory of it only if it, or the job that comes first, comes first
    no more.

    Args:
        rank: returns the rank of a job; None for one that may not begin. It is called only where jobs share a
            directory.
        on_change: called with the key of each job of a directory in which another one comes first now.
    """

    def __init__(
        self, rank: Callable[[NamespacedName], Rank | None], on_change: Callable[[NamespacedName], None]
    ) -> None:
        self._rank = rank
        self._on_change = on_change
        self._jobs: dict[_Place, set[NamespacedName]] = {}
        self._first: dict[_Place, _First | None] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def move(self, key: NamespacedName, old: AbstractSet[StorageLocation], new: AbstractSet[StorageLocation]) -> None:
        """Update the job `key`, which wrote to the locations `old` and now writes to `new`."""
        for location in old - new:
            self._remove(key, (key.namespace, location))
        for location in new:
            place = (key.namespace, location)
            self._jobs.setdefault(place, set()).add(key)
            self._update(key, place)

    def first(self, key: NamespacedName, location: StorageLocation) -> NamespacedName | None:
        """Return the job that comes first where the job `key` writes; None if it is that job, or is alone."""
        first = self._first.get((key.namespace, location))
        return first[0] if first is not None and first[0] != key else None

    def _remove(self, key: NamespacedName, place: _Place) -> None:
        jobs = self._jobs.get(place, set())
        jobs.discard(key)
        first = self._first.get(place)
        if not jobs:
            self._jobs.pop(place, None)
            self._first.pop(place, None)
        elif first is not None and first[0] == key:
            self._choose(place)

    def _update(self, key: NamespacedName, place: _Place) -> None:
        # Nearly every directory has one job: its rank is not needed, and reading it would cost each event of each job.
        if len(self._jobs[place]) == 1:
            return
        if place not in self._first:  # the second job
            self._choose(place)
            return
        first, rank = self._first[place], self._rank(key)
        # The first job is compared with itself before the change: only a new rank may make another one first.
        if first is not None and first[0] == key:
            if rank != first[1]:
                self._choose(place)
        elif rank is not None and (first is None or rank < first[1]):
            self._choose(place)

    def _choose(self, place: _Place) -> None:
        ranks = ((rank, key) for key in self._jobs[place] if (rank := self._rank(key)) is not None)
        rank, first = min(ranks, default=(None, None))
        before = self._first.get(place)
        self._first[place] = (first, rank) if first is not None and rank is not None else None
        if before is None or before[0] != first:
            for key in self._jobs[place]:
                self._on_change(key)
