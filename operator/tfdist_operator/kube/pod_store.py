"""The pods of all jobs as summaries, by job: the informer's cache, written through by our own creations.

A pod that was just created is in the store before the watch tells of it, so that a lagging watch never makes the
planner see it missing. Versions decide which of two accounts of a pod is the newer one; Kubernetes has documented
since 1.35 that they may be compared as numbers (KEP-5504).
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from tfdist.render import names
from tfdist_operator.kube.reached import EVERYWHERE
from tfdist_operator.observed.pod import PodSummary, summarize


class Key(NamedTuple):
    """Namespace and name of a job: what the queue and the stores go by."""

    namespace: str
    name: str


class PodStore:
    """Summaries of pods by job. `on_change` is called with the key of a job whose pods changed."""

    def __init__(self, on_change: Callable[[Key], None]) -> None:
        self._pods: dict[Key, dict[str, PodSummary]] = {}
        self._on_change = on_change

    def __len__(self) -> int:
        return sum(map(len, self._pods.values()))

    def of(self, key: Key, job_uid: str) -> tuple[PodSummary, ...]:
        """Return the pods of the job with this key and UID, in order of their names."""
        pods = self._pods.get(key, {})
        return tuple(pods[name] for name in sorted(pods) if pods[name].job_uid == job_uid)

    def put(self, raw: Mapping[str, Any]) -> None:
        """Take in a pod as the API server gives it, unless what is known is newer."""
        key, summary = _key(raw), summarize(raw)
        pods = self._pods.setdefault(key, {})
        known = pods.get(summary.name)
        if known is not None and known.resource_version >= summary.resource_version:
            return
        pods[summary.name] = summary
        self._on_change(key)

    def remove(self, raw: Mapping[str, Any]) -> None:
        """Forget a pod that the API server has deleted, unless another of its name has been made since."""
        key, meta = _key(raw), raw["metadata"]
        known = self._pods.get(key, {}).get(meta["name"])
        if known is None or known.uid != meta["uid"]:
            return
        self._drop(key, meta["name"])

    def retain(self, uids: AbstractSet[str], version: int, namespace: str = EVERYWHERE) -> None:
        """Forget the pods that a list of `namespace` at `version` did not hold, unless they were made since."""
        for key, pods in list(self._pods.items()):
            if namespace not in {EVERYWHERE, key.namespace}:
                continue
            for pod in list(pods.values()):
                if pod.uid not in uids and pod.resource_version <= version:
                    self._drop(key, pod.name)

    def _drop(self, key: Key, name: str) -> None:
        pods = self._pods[key]
        del pods[name]
        if not pods:
            del self._pods[key]
        self._on_change(key)


def _key(raw: Mapping[str, Any]) -> Key:
    meta = raw["metadata"]
    return Key(meta["namespace"], meta["labels"][names.JOB_LABEL])
