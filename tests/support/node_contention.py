"""Several jobs that contend for nodes of one pod each.

A scheduler binds single pods in a random order, or whole gangs. The controller sees each bound pod by an event of its
own: between two of them, every gang is scheduled in part.
"""

import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from support.factories import INSTALLATION, NOW, manifest
from support.statuses import is_finished, status_of
from tfdist.api.gang_system import Availability, GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.observed.job_view import Contention, JobView, RuntimeState, StoredJob
from tfdist.observed.pod import PodState, PodSummary, summarize
from tfdist.planner import plan
from tfdist.reasons import EventReason
from tfdist.render.fingerprint import fingerprint
from tfdist.timestamps import rfc3339
from tfdist.validation import parse

_STEP_SECONDS = 10
_RUN_SECONDS = 30
_TIMEOUT_SECONDS = 30


@dataclass
class _Job:
    uid: str
    replicas: int
    status: dict[str, Any] = field(default_factory=dict)
    pods: dict[str, PodSummary] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    """Pods that have a node, which the controller has not seen yet."""
    served: frozenset[GangSystem] = frozenset()
    runs_since: datetime | None = None
    releases: int = 0
    wrong_releases: int = 0

    @cached_property
    def job(self) -> TFDistJob:
        """Return the job."""
        raw = manifest(worker={"replicas": self.replicas}, scheduling={"timeoutSeconds": _TIMEOUT_SECONDS})
        return parse(raw | {"metadata": raw["metadata"] | {"uid": self.uid}})

    def reconcile(self, now: datetime, contention: Contention) -> None:
        """Carry out the plan of the job; a deleted pod is gone at once."""
        job, pods = self.job, tuple(self.pods.values())
        stored = StoredJob(job, (), 1, template=fingerprint(job))
        systems = dict.fromkeys(self.served, Availability.SERVED)
        view = JobView(stored, status_of(self.status), RuntimeState(), pods, systems=systems, contention=contention)
        todo = plan(view, now, INSTALLATION)
        self.status = todo.status or self.status
        if any(event.reason == EventReason.PODS_READY_TIMEOUT for event in todo.events):
            self.releases += 1
            self.wrong_releases += all(p.node or p.name in self.unseen for p in pods)
        for name in todo.deletes:
            self.pods.pop(name, None)
        for pod in todo.creates:
            meta = pod["metadata"] | {"uid": f"{self.uid}-{len(self.pods)}", "resourceVersion": "1"}
            self.pods[meta["name"]] = summarize(pod | {"metadata": meta | {"creationTimestamp": rfc3339(now)}})

    def work(self, now: datetime) -> None:
        """Let the job succeed when all of its replicas have run for a while."""
        if len(self.pods) < self.replicas or any(p.state is not PodState.RUNNING for p in self.pods.values()):
            self.runs_since = None
        elif self.runs_since is None:
            self.runs_since = now
        elif (now - self.runs_since).total_seconds() >= _RUN_SECONDS:
            self.pods = {n: replace(p, state=PodState.SUCCEEDED, exit_code=0) for n, p in self.pods.items()}


class Contest:
    """The jobs, in the order of their age.

    Args:
        jobs: number of jobs of `replicas` replicas.
        replicas: size of each gang.
        nodes: number of nodes.
        releases: whether the jobs know of one another.
        gang: whether the scheduler binds all pods of a job or none.
        oversized: number of further jobs, older than the others, of more replicas than there are nodes.
    """

    def __init__(
        self, *, jobs: int, replicas: int, nodes: int, releases: bool = True, gang: bool = False, oversized: int = 0
    ) -> None:
        sizes = [nodes + 1] * oversized + [replicas] * jobs
        served = frozenset({GangSystem.NATIVE}) if gang else frozenset()
        self._jobs = [_Job(f"uid-{i:02}", size, served=served) for i, size in enumerate(sizes)]
        self._nodes, self._releases, self._gang = nodes, releases, gang
        self._random = random.Random(1)  # noqa: S311  no secret

    @property
    def finished(self) -> int:
        """Number of jobs that have succeeded."""
        return sum(is_finished(job.status) for job in self._jobs)

    @property
    def releases(self) -> int:
        """How often a gang has released its nodes."""
        return sum(job.releases for job in self._jobs)

    @property
    def wrong_releases(self) -> int:
        """How often a gang has released its nodes though all of its pods had one."""
        return sum(job.wrong_releases for job in self._jobs)

    def run(self, seconds: int) -> None:
        """Let so many seconds pass, or fewer if all jobs have finished."""
        for passed in range(0, seconds, _STEP_SECONDS):
            now = NOW + timedelta(seconds=passed)
            active = [job for job in self._jobs if not is_finished(job.status)]
            for job in active:
                job.reconcile(now, self._contention(job))
            self._schedule(now)
            for job in active:
                job.work(now)
            if not active:
                return

    def _contention(self, job: _Job) -> Contention:
        waiting = [other for other in self._jobs if any(p.unschedulable for p in other.pods.values())]
        if not self._releases or job not in waiting:
            return Contention()
        return Contention(len(waiting) - 1, job is waiting[0])

    def _schedule(self, now: datetime) -> None:
        """Bind pods, and let the controller see them one by one."""
        every = [(job, name) for job in self._jobs for name in job.pods]
        self._random.shuffle(every)
        bound = self._bound([(job, name) for job, name in every if job.pods[name].state is PodState.PENDING])
        for job, name in bound:
            job.unseen.add(name)
        for job, name in bound:
            job.unseen.discard(name)
            if name in job.pods:
                has_node: dict[str, Any] = {"node": "node", "scheduled_at": rfc3339(now), "reason": ""}
                job.pods[name] = replace(job.pods[name], state=PodState.RUNNING, ready=True, **has_node)
                job.reconcile(now, self._contention(job))

    def _bound(self, pending: list[tuple[_Job, str]]) -> list[tuple[_Job, str]]:
        """Return the pods that get a node; the others become unschedulable."""
        free = self._nodes - sum(p.state is PodState.RUNNING for job in self._jobs for p in job.pods.values())
        bound: list[tuple[_Job, str]] = []
        for job, name in pending:
            group = [(job, each) for each in job.pods] if self._gang else [(job, name)]
            if (job, name) in bound:
                continue
            if len(bound) + len(group) <= free:
                bound += group
            else:
                job.pods[name] = replace(job.pods[name], reason="Unschedulable", message="no node is free")
        return bound
