"""A kubelet that a test controls: a word for each pod gives its state.

| word | the pod |
|---|---|
| `P` | waits |
| `R`, `R3` | runs; its container was restarted 3 times |
| `S` | its container ended with 0 |
| `F1` | its container ended with exit code 1 |
| `S?`, `F?` | has succeeded, or failed, and nothing is known of its container |
| `X` | runs on a node that does not answer, and is being deleted, without an end |
"""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from support.api import PODS, Api, Json

NODES: Final = "/api/v1/nodes"
SILENT: Final = {"key": "example.com/silent", "effect": "NoSchedule"}
"""Taint of a node whose kubelet never answers."""

_TIMES: Final = {"startedAt": "2020-01-01T00:00:00Z", "finishedAt": "2020-01-01T00:01:00Z"}


def words(pods: str) -> Iterator[tuple[str, str]]:
    """Yield the replicas and words of `chief-0:S worker-0,1:R`."""
    for part in pods.split():
        names, word = part.split(":")
        role, indices = names.rsplit("-", 1)
        for index in indices.split(","):
            yield f"{role}-{index}", word


def replica_of(pod: Json, job: str) -> str:
    """Return the replica that a pod of a job runs: `worker-0`."""
    return str(pod["metadata"]["name"]).removeprefix(f"{job}-")


def is_deleting(word: str) -> bool:
    """Return whether the pod is being deleted: it must be on a node, or Kubernetes removes it at once."""
    return word == "X"


def play(api: Api, path: str, word: str) -> None:
    """Give the pod at `path` the status that a kubelet would."""
    if word != "P":
        api.do("PATCH", f"{path}/status", {"status": status(word)}, "merge-patch")
    if is_deleting(word):
        api.do("DELETE", path)


def status(word: str) -> Json:
    """Return the status of a pod."""
    letter, rest = word[0], word[1:]
    phase = {"R": "Running", "X": "Running", "S": "Succeeded", "F": "Failed"}[letter]
    ready = {"type": "Ready", "status": "True" if phase == "Running" else "False"}
    if rest == "?":
        return {"phase": phase, "conditions": [ready], "containerStatuses": []}
    return {"phase": phase, "conditions": [ready], "containerStatuses": [_container(letter, rest)]}


def _container(letter: str, rest: str) -> Json:
    code = {"S": "0", "F": rest}.get(letter)
    if code is None:
        state: Json = {"running": {"startedAt": _TIMES["startedAt"]}, "terminated": None}
    else:
        reason = "Completed" if code == "0" else "Error"
        state = {"running": None, "terminated": {"exitCode": int(code), "reason": reason} | _TIMES}
    return {
        "name": "tensorflow",
        "image": "x",
        "imageID": "",
        "ready": code is None,
        "restartCount": int(rest or 0) if letter == "R" else 0,
        "state": state,
    }


@contextmanager
def silent_node(api: Api) -> Iterator[str]:
    """Make a node that reports Ready and runs nothing; only pods that tolerate its taint are scheduled there."""
    name = f"silent-{uuid.uuid4().hex[:8]}"
    room = {"cpu": "100", "memory": "1Ti", "pods": "100"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    spec = {"taints": [SILENT]}
    api.do("POST", NODES, {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": spec})
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    api.do("PATCH", f"{NODES}/{name}/status", {"status": status}, "merge-patch")
    yield name
    for pod in api.do("GET", "/api/v1/pods", fieldSelector=f"spec.nodeName={name}")["items"]:
        path = f"{PODS.format(ns=pod['metadata']['namespace'])}/{pod['metadata']['name']}"
        api.send("DELETE", path, {"gracePeriodSeconds": 0})
    api.do("DELETE", f"{NODES}/{name}")
