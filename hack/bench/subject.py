"""The measured controllers: how each is installed and started, and the form of its jobs."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from support.api import PODS

from bench.bulk import Request
from bench.cluster import Cluster, wait
from bench.process import Process

Json = dict[str, Any]

CONTAINER = "tensorflow"
"""The container that decides; both call it so."""


class Subject(Protocol):
    """A controller of training jobs."""

    @property
    def name(self) -> str:
        """Short name, also of its namespaces."""
        ...

    @property
    def jobs(self) -> str:
        """Path of its jobs, with `{ns}` for the namespace."""
        ...

    def install(self, cluster: Cluster) -> None:
        """Create the objects that it needs to start."""
        ...

    def start(self, cluster: Cluster) -> AbstractContextManager[Process]:
        """Run it until the block ends; it is ready to act in the block."""
        ...

    def job(self, namespace: str, name: str, workers: int) -> Json:
        """Return a job of this number of workers."""
        ...

    def is_(self, job: Json, condition: str) -> bool:
        """Return whether the status of a job is `Running` or `Succeeded`."""
        ...

    def replaced(self, workers: int) -> int:
        """Return how many pods of a job are replaced when one has failed."""
        ...


def create(cluster: Cluster, subject: Subject, namespace: str, jobs: int, workers: int) -> None:
    """Create jobs, many at a time."""
    path = subject.jobs.format(ns=namespace)
    manifests = [subject.job(namespace, f"job-{number}", workers) for number in range(jobs)]
    cluster.bulk.send([Request("POST", path, job) for job in manifests])


def ended(namespace: str, pod: str, exit_code: int) -> Request:
    """Return the request by which a kubelet reports that the container of a pod has terminated."""
    times = {"startedAt": "2030-01-01T00:00:00Z", "finishedAt": "2030-01-01T00:01:00Z"}
    reason = "Completed" if exit_code == 0 else "Error"
    container = {
        "name": CONTAINER,
        "ready": False,
        "restartCount": 0,
        "image": "x",
        "imageID": "",
        "state": {"terminated": {"exitCode": exit_code, "reason": reason} | times},
    }
    status = {"phase": "Succeeded" if exit_code == 0 else "Failed", "containerStatuses": [container]}
    path = f"{PODS.format(ns=namespace)}/{pod}/status"
    return Request("PATCH", path, {"status": status}, "application/merge-patch+json")


def has_condition(job: Json, kind: str) -> bool:
    """Return whether a condition of the status is true."""
    conditions = job.get("status", {}).get("conditions") or ()
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


@contextlib.contextmanager
def started(cluster: Cluster, subject: Subject) -> Iterator[Process]:
    """Run a contestant that has already reconciled one job, so that its start is not measured."""
    with subject.start(cluster) as process:
        namespace = f"warm-{subject.name}"
        if not cluster.api.send("GET", f"/api/v1/namespaces/{namespace}").ok:
            cluster.namespace(namespace)
        create(cluster, subject, namespace, jobs=1, workers=1)
        wait(lambda: cluster.any(PODS.format(ns=namespace)), f"the first pod of {subject.name}", 120)
        cluster.clear(namespace, subject.jobs)
        process.wait_quiet()
        yield process
