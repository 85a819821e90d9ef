"""A kubelet as a test plays it: pods are as their words say.

| word | the pod |
|---|---|
| `P` | waits |
| `R`, `R3` | runs; its container was restarted 3 times |
| `S` | its container ended with 0 |
| `F1` | its container ended with exit code 1 |
| `S?`, `F?` | has succeeded, or failed, and nothing is known of its container |
| `X` | runs and is being deleted, without an end |
"""

from collections.abc import Iterator
from typing import Final

from support.api import PODS, Api, Json

HOLD: Final = "example.com/hold"
"""Finalizer of a pod that is being deleted and stays, as on a node that does not answer."""

_TIMES: Final = {"startedAt": "2030-01-01T00:00:00Z", "finishedAt": "2030-01-01T00:01:00Z"}


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
    """Return whether the pod is being deleted."""
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


def release(api: Api, namespace: str) -> None:
    """Let go of pods that are held, so that their namespace can be deleted."""
    for pod in api.pods(namespace):
        if HOLD in pod["metadata"].get("finalizers", ()):
            path = f"{PODS.format(ns=namespace)}/{pod['metadata']['name']}"
            api.do("PATCH", path, {"metadata": {"finalizers": None}}, "merge-patch")
