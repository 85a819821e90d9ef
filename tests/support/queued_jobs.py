"""Jobs in a queue of Kueue, for tests with a real one."""

from collections.abc import Sequence
from typing import Final

from support.api import JOBS, Api, Json
from support.factories import manifest
from support.gangs import SIZE
from support.history import Change
from support.places import phase
from support.polling import wait_for
from support.schedulers import kueue

QUEUE: Final = "team-a"
PODS: Final = "/api/v1/pods"
WORKLOADS: Final = f"{kueue.API}/workloads"
"""Those of all namespaces, in the version in which they are stored: a watch of it needs no conversion."""


def submit(api: Api, namespace: str, name: str, *, labels: Json | None = None, **fields: object) -> None:
    """Create a job whose replicas request one CPU each; by default with `SIZE` workers, in the queue `QUEUE`.

    Args:
        api: the API server.
        namespace: of the job.
        name: of the job.
        labels: of the job.
        fields: of its specification.
    """
    spec: Json = {"worker": {"replicas": SIZE}, "scheduling": {"queue": QUEUE}}
    made = manifest(name, namespace, **(spec | {"resources": {"requests": {"cpu": "1"}}} | fields))
    made["metadata"]["labels"] = labels or {}
    del made["metadata"]["uid"]
    api.create_job(made)


def patch_job(api: Api, namespace: str, name: str, change: Json) -> None:
    """Apply a merge patch to a job."""
    api.do("PATCH", f"{JOBS.format(ns=namespace)}/{name}", change, "merge-patch")


def await_phase(api: Api, namespace: str, name: str, wanted: str) -> None:
    """Wait until a job is in a phase."""
    wait_for(
        f"{name} to be {wanted}",
        lambda: phase(api, namespace, name) == wanted,
        context=lambda: str(api.job(namespace, name).get("status")),
    )


def await_message(api: Api, namespace: str, name: str, text: str) -> None:
    """Wait until the job waits in its queue with a text."""

    def found() -> bool:
        status = api.job(namespace, name).get("status", {})
        return status.get("phase") == "Queued" and text in status["summary"].get("message", "")

    wait_for(f"{name} to wait: {text}", found, context=lambda: str(api.job(namespace, name).get("status")))


def set_stop_policy(api: Api, namespace: str, policy: str) -> None:
    """Start or stop the queue `QUEUE` of a namespace."""
    path = f"{kueue.API}/clusterqueues/{namespace}-{QUEUE}"
    api.do("PATCH", path, {"spec": {"stopPolicy": policy}}, "merge-patch")


def conditions(workload: Json) -> dict[str, str]:
    """Return the conditions of a Workload by type."""
    return {each["type"]: each["status"] for each in workload.get("status", {}).get("conditions", ())}


class Quota:
    """Which jobs of a namespace hold quota, and which have pods, as a history of changes goes on."""

    def __init__(self) -> None:
        self.pods: dict[str, set[str]] = {}
        """The UIDs of the pods that have been created, by name."""
        self.workloads: dict[str, set[str]] = {}
        """The UIDs of the Workloads that have been created, by job."""
        self._holds: dict[str, bool] = {}
        self._live: dict[str, set[str]] = {}

    def add(self, change: Change) -> None:
        """Take a change of a pod or a Workload into account.

        Raises:
            AssertionError: a pod was created without quota, or the quota was released while a pod lived.
        """
        meta = change.object["metadata"]
        job, name, uid = meta["labels"]["tfdist.dev/job"], meta["name"], meta["uid"]
        if change.path == PODS:
            self._add_pod(job, name, uid, change)
            return
        self.workloads.setdefault(job, set()).add(uid)
        held, holds = self._holds.get(job), not change.deleted and _holds_quota(change.object)
        self._holds[job] = holds
        assert holds or not held or not self._live.get(job), f"the quota of {job} was released while a pod lived"

    def _add_pod(self, job: str, name: str, uid: str, change: Change) -> None:
        if uid not in self.pods.get(name, ()):
            assert self._holds.get(job), f"{name} was created without quota"
        self.pods.setdefault(name, set()).add(uid)
        ended = change.deleted or change.object["status"]["phase"] in {"Succeeded", "Failed"}
        live = self._live.setdefault(job, set())
        (live.discard if ended else live.add)(uid)


def quota_of(changes: Sequence[Change]) -> Quota:
    """Return the quota after the changes of a namespace.

    Raises:
        AssertionError: a pod was created without quota, or the quota was released while a pod lived.
    """
    quota = Quota()
    for change in changes:
        quota.add(change)
    return quota


def _holds_quota(workload: Json) -> bool:
    found = conditions(workload)
    return (found.get("Admitted"), found.get("Finished", "False")) == ("True", "False")
