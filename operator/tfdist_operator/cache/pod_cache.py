"""The cache of pods as summaries, by job.

The response to a creation is stored before the watch delivers the pod, so that a lagging watch never makes the planner
regard it as missing.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from tfdist.observed.pod import PodSummary, summarize
from tfdist.render import names
from tfdist_operator.cache.object_cache import Name, ObjectCache, Raw
from tfdist_operator.cache.removed_pods import RemovedPods
from tfdist_operator.kube.keys import NamespacedName


class PodCache(ObjectCache[PodSummary]):
    """Summaries of pods, with an index by job."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._by_job: dict[NamespacedName, dict[str, PodSummary]] = {}
        self._unschedulable: dict[NamespacedName, set[str]] = {}
        """Names of the pods without a node, by job."""
        self._removed = RemovedPods(self._clock)

    def of_job(self, key: NamespacedName, uid: str) -> tuple[PodSummary, ...]:
        """Return the pods of the job with this key and UID, in order of their names.

        A pod that succeeded before its deletion is one of them until `forget_removed`.
        """
        pods = {**self._removed.of_job(key), **self._by_job.get(key, {})}
        return tuple(pods[name] for name in sorted(pods) if pods[name].job_uid == uid)

    def unschedulable(self) -> Collection[NamespacedName]:
        """Return the keys of the jobs of which a pod waits for a node."""
        return self._unschedulable.keys()

    def on_delete(self, raw: Raw) -> None:
        """Remove a deleted pod; its last status, which no earlier event may have had, is in `raw`."""
        with suppress(KeyError, TypeError, ValueError):  # of labels that have changed
            self._store(raw)
        super().on_delete(raw)

    def removed(self, key: NamespacedName) -> frozenset[str]:
        """Return the UIDs of the deleted pods that `of_job` returns."""
        return frozenset(pod.uid for pod in self._removed.of_job(key).values())

    def forget_removed(self, key: NamespacedName, uids: Collection[str]) -> None:
        """Remove deleted pods whose success a reconcile has observed."""
        self._removed.remove(key, uids)

    def find(self, key: NamespacedName, job_uid: str, name: str) -> PodSummary | None:
        """Return the pod of that name, if it belongs to the job."""
        entry = self._by_job.get(key, {}).get(name)
        return entry if entry is not None and entry.job_uid == job_uid else None

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
