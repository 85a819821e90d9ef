"""Where the informers put jobs and pods: into their stores, with the key of each changed job told to `on_change`.

The stores are also written through by the controller itself, with the answers to its own requests. Such an answer may
come after the watch has already told of the object's deletion; it must not bring the object back. The watch is in
order of versions, so what it has passed is known to the store, or gone.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.kube.reached import EVERYWHERE, Reached

Raw = Mapping[str, Any]


class WatchedJobs:
    """Feeds a `JobStore`."""

    def __init__(self, jobs: JobStore, on_change: Callable[[Key], None]) -> None:
        self._jobs = jobs
        self._on_change = on_change

    def take(self, raw: Raw) -> None:
        """Take in a job that is new or has changed."""
        self._on_change(self._jobs.take(raw))

    def drop(self, raw: Raw) -> None:
        """Forget a deleted job."""
        meta = raw["metadata"]
        self._remove(Key(meta["namespace"], meta["name"]), meta["uid"])

    def retain(self, uids: AbstractSet[str], version: int, namespace: str = EVERYWHERE) -> None:
        """Forget the jobs that a list of `namespace` at `version` did not hold."""
        for job in self._jobs.all():
            if namespace not in {EVERYWHERE, job.key.namespace}:
                continue
            if job.uid not in uids and job.resource_version <= version:
                self._remove(job.key, job.uid)

    def reached(self, version: int, namespace: str = EVERYWHERE) -> None:
        """Remember how far the watch is."""
        self._jobs.watched.set(version, namespace)

    def _remove(self, key: Key, uid: str) -> None:
        self._jobs.remove(key, uid)
        self._on_change(key)


class WatchedPods(PodStore):
    """A pod store that an informer feeds."""

    def __init__(self, on_change: Callable[[Key], None]) -> None:
        super().__init__(on_change)
        self._watched = Reached()

    def put(self, raw: Raw) -> None:
        """Take in the answer to a creation, unless the watch has told of the pod's deletion since."""
        meta = raw["metadata"]
        if not self._watched.has_passed(int(meta["resourceVersion"]), meta["namespace"]):
            super().put(raw)

    def take(self, raw: Raw) -> None:
        """Take in a pod that is new or has changed."""
        super().put(raw)

    def drop(self, raw: Raw) -> None:
        """Forget a deleted pod."""
        self.remove(raw)

    def reached(self, version: int, namespace: str = EVERYWHERE) -> None:
        """Remember how far the watch is."""
        self._watched.set(version, namespace)
