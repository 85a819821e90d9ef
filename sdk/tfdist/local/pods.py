"""Pods of a local run, each with the process that stands for its container: the part of the kubelet.

The planner sees a pod as on a cluster. One difference: the processes of two attempts share the replica's ports, so a
pod waits until those replicas of its gang that were asked to stop have ended.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tfdist.contract import MAIN_CONTAINER
from tfdist.local.job import LocalJob
from tfdist.local.ports import LOCAL_HOST
from tfdist.local.processes import Processes
from tfdist.local.replica_plan import PREPARATIONS, ReplicaPlan
from tfdist.local.run_directory import RunDirectory
from tfdist.observed.pod import PodSummary, summarize
from tfdist.render.gang import Gang, GangName, gangs
from tfdist.render.names import INDEX_LABEL, ROLE_LABEL
from tfdist.timestamps import rfc3339

_CONTAINERS: Final = {process: container for container, process in PREPARATIONS.items()}
_WAITING: Final[Mapping[str, Any]] = {"waiting": {"reason": "PodInitializing"}}


@dataclass(slots=True)
class LocalPod:
    """A pod and its process. `container` is the state of its container as in a pod's status."""

    manifest: Mapping[str, Any]
    process: ReplicaPlan
    gang: Gang
    created_at: str
    container: Mapping[str, Any] = field(default_factory=lambda: _WAITING)
    failed_init: str | None = None
    """The init container that has failed."""
    deleted_at: str = ""

    def summary(self) -> PodSummary:
        """Return the pod as input of the planner."""
        meta = dict(self.manifest["metadata"])
        meta |= {"uid": meta["name"], "resourceVersion": "1", "creationTimestamp": self.created_at}
        if self.deleted_at:
            meta["deletionTimestamp"] = self.deleted_at
        runs = "running" in self.container
        phase = "Running" if runs else "Failed" if self.failed_init else "Pending"
        status: dict[str, Any] = {"phase": phase, "podIP": LOCAL_HOST, "conditions": [_ready(runs)]}
        if self.failed_init:
            status["initContainerStatuses"] = [{"name": self.failed_init, "state": self.container}]
        else:
            status["containerStatuses"] = [{"name": MAIN_CONTAINER, "state": self.container}]
        return summarize({"metadata": meta, "spec": {}, "status": status})


class Pods:
    """Creates and deletes the pods of a job, and starts and stops their processes."""

    def __init__(self, local: LocalJob, processes: Processes, directory: RunDirectory) -> None:
        self._local, self._processes, self._directory = local, processes, directory
        self._gangs = {(str(m.role), m.index): gang for gang in gangs(local.job) for m in gang.members}
        self._pods: dict[str, LocalPod] = {}
        self._preparations = deque(local.preparations)
        """Processes that have not succeeded yet; they run one after another."""

    def summaries(self) -> tuple[PodSummary, ...]:
        """Return all pods as input of the planner."""
        return tuple(pod.summary() for pod in self._pods.values())

    def running(self) -> Mapping[str, LocalPod]:
        """Return the pods whose processes run, by the name of the replica."""
        return {pod.process.name: pod for pod in self._pods.values() if "running" in pod.container}

    def create(self, manifest: Mapping[str, Any], now: datetime) -> None:
        """Create a pod; `start` starts its process."""
        process, labels = self._local.process(manifest), manifest["metadata"]["labels"]
        gang = self._gangs[labels[ROLE_LABEL], int(labels[INDEX_LABEL])]
        self._pods[manifest["metadata"]["name"]] = LocalPod(manifest, process, gang, rfc3339(now))

    def delete(self, name: str, now: datetime) -> None:
        """Delete a pod; a process that runs gets its grace period, and the pod remains until it has ended."""
        pod = self._pods[name]
        if "running" in pod.container:
            pod.deleted_at = pod.deleted_at or rfc3339(now)
            self._processes.stop([pod.process.name])
        else:
            del self._pods[name]

    def remove_ended(self) -> bool:
        """Remove the deleted pods that have ended; return whether there were any."""
        names = [name for name, pod in self._pods.items() if pod.deleted_at and "terminated" in pod.container]
        for name in names:
            del self._pods[name]
        return bool(names)

    def start(self) -> bool:
        """Start the processes of the pods that need not wait; return whether there were any."""
        waiting = [pod for pod in self._pods.values() if "waiting" in pod.container]
        if self._preparations:
            first = self._preparations[0]
            runs = first.name in self._processes.running
            if waiting and not runs:
                self._processes.start(first)
            elif runs and not waiting:
                self._processes.stop([first.name])
            return False
        startable = [pod for pod in waiting if not self._must_wait(pod)]
        for pod in startable:
            self._processes.start(pod.process)
            pod.container = {"running": {}}
        return bool(startable)

    def _must_wait(self, pod: LocalPod) -> bool:
        """Return whether processes that still run use the ports of a pod, or GPUs that the evaluation gets."""
        running = self.running().values()
        evaluates = pod.gang.name is GangName.EVALUATION and pod.process.gpus > 0
        return any(
            (other.gang is pod.gang and other.deleted_at)
            or (evaluates and other.gang.name is GangName.TRAINING and other.process.gpus > 0)
            for other in running
        )

    def record_ends(self, codes: Mapping[str, int], now: datetime) -> None:
        """Record the exit codes of processes, by name."""
        for pod in self._pods.values():
            if "running" in pod.container and pod.process.name in codes:
                pod.container = self._terminated(pod.process.name, codes[pod.process.name], now)
        if not self._preparations or self._preparations[0].name not in codes:
            return
        name = self._preparations[0].name
        if codes[name] == 0:
            self._preparations.popleft()
            return
        for pod in self._pods.values():
            if "waiting" in pod.container:
                pod.container, pod.failed_init = self._terminated(name, codes[name], now), _CONTAINERS[name]

    def _terminated(self, name: str, code: int, now: datetime) -> Mapping[str, Any]:
        message = self._directory.message(name, failed=code != 0)
        reason = "Error" if code else "Completed"
        return {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": rfc3339(now)}}


def _ready(runs: bool) -> dict[str, str]:
    return {"type": "Ready", "status": "True" if runs else "False"}
