"""Simulated nodes with a number of places: units of a resource of which each replica of a test's job takes one."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from support.api import PODS, Api, Json
from support.kubelet import NODES
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
    name = f"places-{uuid.uuid4().hex[:8]}"
    meta = {"name": name, "labels": {HOSTNAME: name}, "annotations": {FAKE_ANNOTATION: "fake"}}
    spec = {"taints": [{"key": taint, "effect": "NoSchedule"}]} if taint else {}
    room = {"cpu": "1000", "memory": "1Ti", "pods": "1000", PLACE: str(places)}
    api.do("POST", NODES, {"metadata": meta, "spec": spec})
    api.do("PATCH", f"{NODES}/{name}/status", {"status": {"capacity": room, "allocatable": room}}, "merge-patch")
    yield name
    for pod in api.do("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]:
        path = f"{PODS.format(ns=pod['metadata']['namespace'])}/{pod['metadata']['name']}"
        api.send("DELETE", path, {"gracePeriodSeconds": 0})
    api.do("DELETE", f"{NODES}/{name}")


def remove_taints(api: Api, node: str) -> None:
    """Let every pod be scheduled on a node."""
    api.do("PATCH", f"{NODES}/{node}", {"spec": {"taints": None}}, "merge-patch")


def one_place() -> Json:
    """Return the fields of a job whose replicas take one place each."""
    return {"resources": {"limits": {PLACE: 1}}}
