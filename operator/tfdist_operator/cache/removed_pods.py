"""Pods that have been deleted after they succeeded, until a reconcile has observed that.

The kubelet reports the end of a container and removes a terminating pod within milliseconds: a reconcile often starts
after both, and the success would be lost. A standby keeps such pods too, for a while, for the case that it takes over.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from tfdist.observed.pod import PodState, PodSummary
from tfdist_operator.kube.keys import NamespacedName

_KEPT_SECONDS: Final = 600.0
"""How long a pod is kept if no reconcile observes it: far longer than a takeover takes."""


class RemovedPods:
    """Last summaries of such pods, by job; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_job: dict[NamespacedName, dict[str, PodSummary]] = {}
        self._removed_at: dict[str, tuple[float, NamespacedName]] = {}
        """Time and job by UID, oldest first."""

    def add(self, key: NamespacedName, pod: PodSummary) -> None:
        """Keep a removed pod if it succeeded; none of its containers runs any more."""
        self._expire()
        if pod.state is PodState.SUCCEEDED:
            self._by_job.setdefault(key, {})[pod.name] = replace(pod, deleting=True, sidecars_run=False)
            self._removed_at[pod.uid] = self._clock(), key

    def of_job(self, key: NamespacedName) -> Mapping[str, PodSummary]:
        """Return the pods of a job by name."""
        return self._by_job.get(key, {})

    def remove(self, key: NamespacedName, uids: Collection[str]) -> None:
        """Remove pods of a job by UID."""
        remaining = {name: pod for name, pod in self._by_job.get(key, {}).items() if pod.uid not in uids}
        for uid in uids:
            self._removed_at.pop(uid, None)
        if remaining:
            self._by_job[key] = remaining
        else:
            self._by_job.pop(key, None)

    def _expire(self) -> None:
        """Remove the pods that were kept for long enough."""
        while self._removed_at:
            uid, (removed_at, key) = next(iter(self._removed_at.items()))
            if self._clock() - removed_at <= _KEPT_SECONDS:
                return
            self.remove(key, {uid})
