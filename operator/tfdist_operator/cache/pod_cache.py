"""The cache of pods as summaries, by job.

The response to a creation is stored before the watch delivers the pod, so that a lagging watch never makes the planner
regard it as missing.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from tfdist.observed.pod import PodState, PodSummary, summarize
from tfdist.render import names
from tfdist_operator.cache.pod_changes import BURST_SECONDS, planning_delay
from tfdist_operator.cache.resource_cache import Name, OnChange, Raw, ResourceCache, ignore_changes
from tfdist_operator.kube.keys import NamespacedName

OnProgress = Callable[[NamespacedName, float], None]
"""Called with the key of a job, and the seconds after which it is planned."""

_KEPT_SECONDS: Final = 600.0
"""How long a pod is kept if no reconcile observes it: far longer than a takeover takes."""


class RemovedPods:
    """Last summaries of pods that were deleted after they succeeded, by job; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._by_job: dict[NamespacedName, dict[str, PodSummary]] = {}
        self._removed_at: dict[str, tuple[float, NamespacedName]] = {}
        """Time and job by UID, oldest first."""

    def add(self, key: NamespacedName, pod: PodSummary) -> None:
        """Keep a removed pod if it succeeded; none of its containers runs any more."""
        self._expire()
        # The kubelet reports the end of a container and removes a terminating pod within milliseconds: a reconcile
        # often starts after both, and the success would be lost.
        if pod.state is PodState.SUCCEEDED:
            self._by_job.setdefault(key, {})[pod.name] = replace(pod, deleting=True, sidecars_run=False)
            self._removed_at[pod.uid] = self._clock(), key

    def job_pods(self, key: NamespacedName) -> Mapping[str, PodSummary]:
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


class PodCache(ResourceCache[PodSummary]):
    """Summaries of pods, with an index by job.

    Args:
        on_change: called with the key of the job whose pod has changed.
        clock: monotonic, in seconds.
        on_progress: called in its place, with a delay in seconds, if the job need not be planned at once
            (`pod_changes`).
    """

    def __init__(
        self,
        on_change: OnChange = ignore_changes,
        clock: Callable[[], float] = time.monotonic,
        on_progress: OnProgress | None = None,
    ) -> None:
        super().__init__(on_change, clock)
        self._on_progress = on_progress or (lambda key, _: on_change(key))
        self._by_job: dict[NamespacedName, dict[str, PodSummary]] = {}
        self._unschedulable: dict[NamespacedName, set[str]] = {}
        """Names of the pods without a node, by job."""
        self._removed = RemovedPods(self._clock)

    def job_pods(self, key: NamespacedName, uid: str) -> tuple[PodSummary, ...]:
        """Return the pods of the job with this key and UID, in order of their names.

        A pod that succeeded before its deletion is one of them until `forget_removed`.
        """
        pods = {**self._removed.job_pods(key), **self._by_job.get(key, {})}
        return tuple(pods[name] for name in sorted(pods) if pods[name].job_uid == uid)

    def unschedulable_jobs(self) -> Collection[NamespacedName]:
        """Return the keys of the jobs that have a pod without a node."""
        return self._unschedulable.keys()

    def upsert(self, raw: Raw) -> None:
        """Store the response to a creation, change or deletion by this process, unless it is stale.

        Raises:
            KeyError, TypeError, ValueError: it is not a pod of a job.
        """
        # The plan that made the request expects its effect, which no other one has to follow at once.
        if not self._is_covered(raw["metadata"]):
            self._add(raw, least_seconds=BURST_SECONDS)

    def on_delete(self, raw: Raw) -> None:
        """Remove a deleted pod; its last status, which no earlier event may have had, is in `raw`."""
        # The event of a deletion has the last status, which no earlier event may have had. Labels that have changed
        # make it unreadable; the pod is removed anyway.
        with suppress(KeyError, TypeError, ValueError):
            self._store(raw)
        super().on_delete(raw)

    def removed_uids(self, key: NamespacedName) -> frozenset[str]:
        """Return the UIDs of the deleted pods that `job_pods` returns."""
        return frozenset(pod.uid for pod in self._removed.job_pods(key).values())

    def forget_removed(self, key: NamespacedName, uids: Collection[str]) -> None:
        """Remove deleted pods whose success a reconcile has observed."""
        self._removed.remove(key, uids)

    def find(self, key: NamespacedName, job_uid: str, name: str) -> PodSummary | None:
        """Return the pod of that name, if it belongs to the job."""
        entry = self._by_job.get(key, {}).get(name)
        return entry if entry is not None and entry.job_uid == job_uid else None

    def _add(self, raw: Raw, *, least_seconds: float = 0.0) -> None:
        meta = raw["metadata"]
        previous = self.get((meta["namespace"], meta["name"]))
        key = self._store(raw)
        if key is None:
            return
        current = self._objects[meta["namespace"], meta["name"]][1]
        # Another pod of that name: nothing of the former counts for it.
        known = previous if previous is not None and previous.uid == current.uid else None
        self._report(key, planning_delay(known, current), least_seconds)

    def _report(self, key: NamespacedName, seconds: float | None, least_seconds: float = 0.0) -> None:
        """Report that a pod of a job has changed, to plan the job after this many seconds; None does not plan it."""
        if seconds is None:
            return
        delay = max(seconds, least_seconds)
        if delay:
            self._on_progress(key, delay)
        else:
            self._on_change(key)

    def _report_removal(self, key: NamespacedName, removed: PodSummary) -> None:
        # A pod that was terminating has been counted as lost already.
        self._report(key, BURST_SECONDS if removed.deleting else 0.0)

    def _store(self, raw: Raw) -> NamespacedName | None:
        meta = raw["metadata"]
        name = (meta["namespace"], meta["name"])
        try:
            key = super()._store(raw)
        except (KeyError, TypeError, ValueError):
            self._remove(name)  # its labels have changed
            raise
        if key is not None:
            pod = self._by_job.setdefault(key, {})[name[1]] = self._objects[name][1]
            self._index_unschedulable(key, name[1], unschedulable=pod.unschedulable and not pod.deleting)
        return key

    def _index_unschedulable(self, key: NamespacedName, name: str, *, unschedulable: bool) -> None:
        pods = self._unschedulable.get(key, set())
        if unschedulable:
            self._unschedulable.setdefault(key, set()).add(name)
        elif name in pods:
            pods.remove(name)
            if not pods:
                del self._unschedulable[key]

    def _parse(self, raw: Mapping[str, Any]) -> tuple[NamespacedName, PodSummary]:
        """Return the key of a pod's job, and the pod's summary.

        Every client with the right to create pods can set the labels of any replica. Only a pod with the name of the
        replica is accepted: the API server rejects a second pod of that name.
        """
        meta, summary = raw["metadata"], summarize(raw)
        key = NamespacedName(meta["namespace"], meta["labels"][names.JOB_LABEL])
        expected = names.pod_name(key.name, summary.role, summary.index, summary.attempt)
        # Every client with the right to create pods can set the labels of any replica. The API server rejects a second
        # pod of one name, so that only one pod can pass for a replica.
        if summary.name != expected:
            raise ValueError(f"{summary.name} is not the name of the replica that its labels describe: {expected}")
        return key, summary

    def _on_removed(self, name: Name, key: NamespacedName, removed: PodSummary, successor: PodSummary | None) -> None:
        if successor is None:
            self._removed.add(key, removed)
        self._index_unschedulable(key, name[1], unschedulable=False)
        pods = self._by_job[key]
        del pods[name[1]]
        if not pods:
            del self._by_job[key]
