"""Simulated nodes with a number of places: units of a resource of which each replica of a test's job takes one."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from support.api import PODS, Api, Json
from support.kubelet import NODES
from support.polling import wait_for
from tfdist_cluster.control_plane import FAKE_ANNOTATION

PLACE = "example.com/place"
HOSTNAME = "kubernetes.io/hostname"


@contextmanager
def node_with_places(api: Api, places: int, *, taint: str = "") -> Iterator[str]:
    """Make a node with so many places, whose pods run at once; yield its name.

    Args:
        api: the API server.
        places: number of replicas that it can take.
        taint: key of a taint that pods must tolerate; none if empty.
    """
    with node_with(api, {PLACE: str(places)}, taint=taint) as name:
        yield name


@contextmanager
def node_with(
    api: Api, resources: Mapping[str, str], *, taint: str = "", labels: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Make a node with these resources, CPUs and memory, whose pods run at once; yield its name."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    meta = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}, "annotations": {FAKE_ANNOTATION: "fake"}}
    spec = {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}
    room = {"cpu": "1000", "memory": "2Ti", "pods": "1000", **resources}
    api.do("POST", NODES, {"metadata": meta, "spec": spec})
    api.do("PATCH", f"{NODES}/{name}/status", {"status": {"capacity": room, "allocatable": room}}, "merge-patch")
    try:
        yield name
    finally:
        _remove(api, name)


def _remove(api: Api, node: str) -> None:
    """Delete a node with its pods."""
    for pod in api.do("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]:
        path = f"{PODS.format(ns=pod['metadata']['namespace'])}/{pod['metadata']['name']}"
        api.send("DELETE", path, {"gracePeriodSeconds": 0})
    api.do("DELETE", f"{NODES}/{node}")


def remove_taints(api: Api, node: str) -> None:
    """Let every pod be scheduled on a node."""
    api.do("PATCH", f"{NODES}/{node}", {"spec": {"taints": None}}, "merge-patch")


def one_place() -> Json:
    """Return the fields of a job whose replicas take one place each."""
    return {"resources": {"limits": {PLACE: 1}}}


def pods_of(api: Api, namespace: str, job: str) -> list[Json]:
    """Return the pods of a job that are not being deleted."""
    mine = (p for p in api.pods(namespace) if p["metadata"]["labels"]["tfdist.dev/job"] == job)
    return [p for p in mine if "deletionTimestamp" not in p["metadata"]]


def scheduled(api: Api, namespace: str, job: str) -> int:
    """Return how many replicas of a job have a node."""
    return sum(1 for p in pods_of(api, namespace, job) if p["spec"].get("nodeName"))


def phase(api: Api, namespace: str, job: str) -> str:
    """Return the phase of a job."""
    return str(api.job(namespace, job).get("status", {}).get("phase", ""))


def finish(api: Api, namespace: str, jobs: Sequence[str], check: Callable[[], object] = str) -> None:
    """End the replicas of every job that runs, until all jobs have succeeded; call `check` again and again."""

    def all_succeeded() -> bool:
        check()
        phases = {job: phase(api, namespace, job) for job in jobs}
        for job in (job for job, current in phases.items() if current == "Running"):
            for pod in pods_of(api, namespace, job):
                api.end_container(namespace, pod["metadata"]["name"], 0)
        return set(phases.values()) == {"Succeeded"}

    wait_for("all jobs to succeed", all_succeeded, seconds=1200, every_seconds=0.2)
