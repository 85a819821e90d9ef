"""The requests of the client answered from stored objects, below its errors, its kubeconfig and its parsing."""

import contextlib
import io
import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import pytest
import urllib3
import yaml
from kubernetes.client import ApiClient

from support.fake_api import merge_patch
from support.stored_jobs import LATER, NEW, PRICES, RUNNING, at
from tfdist.api.crd import KINDS, crd
from tfdist.api.served_schema import schema_path
from tfdist.client.job import Job
from tfdist.render.names import INDEX_LABEL, JOB_LABEL, JOB_UID_LABEL, ROLE_LABEL, TENSORBOARD_LABEL
from tfdist.timestamps import rfc3339

Json = dict[str, Any]

TEAM: Final = "/api/v1/namespaces/team"
JOBS: Final = "/apis/tfdist.dev/v1/namespaces/team/tfdistjobs"
SWEEPS: Final = "/apis/tfdist.dev/v1alpha1/namespaces/team/tfdistsweeps"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
COLLECTIONS: Final = frozenset(
    ("configmaps", "deployments", "endpointslices", "events", "nodes", "pods", "resourcequotas", "storageclasses",
     "tfdistjobs", "tfdistsweeps")
)  # fmt: skip


class StoredCluster:
    """Objects by path, from which lists are made.

    `watched` are the later states of a job that a watch reports, `denied` pairs of a verb and a resource that the user
    has no right to, `rejected` the answers with an error by path: its code and message. `away` is the error of the
    connection. `deleted_by_watch` are the paths of objects that the first watch finds deleted.
    """

    def __init__(self, *jobs: Job) -> None:
        self.objects: dict[str, Json] = {f"{JOBS}/{job.name}": {**job.manifest} for job in jobs}
        self.watched: dict[str, list[Json]] = {}
        self.denied: set[tuple[str, str]] = set()
        self.rejected: dict[str, tuple[int, str]] = {}
        self.away: Exception | None = None
        self.deleted_by_watch: set[str] = set()

    def put(self, path: str, **content: Any) -> None:
        """Store an object."""
        metadata = {"name": path.rpartition("/")[2], "namespace": "team"} | content.pop("metadata", {})
        self.objects[path] = {"metadata": metadata, **content}

    def call_api(
        self, method: str, url: str, _headers: Json, body: Any, _parts: object, **_: object
    ) -> SimpleNamespace:
        """Answer a request, as `kubernetes.client.ApiClient.call_api`."""
        if self.away:
            raise self.away
        parts = urlsplit(url)
        code, answer = self._answer(method, parts.path, dict(parse_qsl(parts.query)), body)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return SimpleNamespace(response=urllib3.HTTPResponse(io.BytesIO(content), status=code, preload_content=False))

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> tuple[int, Json | bytes]:
        if path in self.rejected:
            code, message = self.rejected[path]
            return code, {"message": message}
        if path == REVIEWS:
            attributes = body["spec"]["resourceAttributes"]
            resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
            return 201, {"status": {"allowed": (attributes["verb"], resource) not in self.denied}}
        if path.endswith("/log"):
            return 200, b""
        if method == "POST":
            return self._created(path, body, stored="dryRun" not in query)
        if path in self.objects:
            return 200, self._changed(method, path, body)
        return self._listed(path, query)

    def _created(self, path: str, body: Json, *, stored: bool) -> tuple[int, Json]:
        name = body["metadata"]["name"]
        if f"{path}/{name}" in self.objects:
            return 409, {"reason": "AlreadyExists", "message": f'{path.rpartition("/")[2]} "{name}" already exists'}
        metadata = {"uid": RUNNING.uid, "creationTimestamp": rfc3339(LATER), "generation": 1, "resourceVersion": "1"}
        answer = body | {"metadata": body["metadata"] | metadata}
        if stored:
            self.objects[f"{path}/{name}"] = answer
        return 201, answer

    def _changed(self, method: str, path: str, body: Any) -> Json:
        if method == "PATCH":
            self.objects[path] = merge_patch(self.objects[path], body)
        return self.objects.pop(path) if method == "DELETE" else self.objects[path]

    def _listed(self, path: str, query: Mapping[str, str]) -> tuple[int, Json | bytes]:
        if "watch" in query:
            for each in self.deleted_by_watch:
                self.objects.pop(each, None)
            name = query.get("fieldSelector", "").removeprefix("metadata.name=")
            states = self.watched.pop(name, ())
            for state in states:
                self.objects[f"{path}/{name}"] = state
            return 200, b"".join(json.dumps({"type": "MODIFIED", "object": s}).encode() + b"\n" for s in states)
        collection, _, name = path.rpartition("/")
        if name not in COLLECTIONS:
            message = f'{collection.rpartition("/")[2]} "{name}" not found'
            return 404, {"message": message, "reason": "NotFound", "details": {"name": name}}
        items = [each for key, each in self.objects.items() if path in _collections(key)]
        selected = [each for each in items if _matches(each, query.get("labelSelector", ""))]
        return 200, {"items": selected, "metadata": {"resourceVersion": "12"}}


def example() -> StoredCluster:
    """Return a cluster with jobs that run, have failed, and are new, with pods and events of the first one."""
    cluster = StoredCluster(RUNNING, PRICES, NEW)
    put_pod(cluster, "worker-0")
    put_pod(cluster, "worker-1")
    for reason, name, seconds, message in (
        ("Scheduled", "fashion-worker-0", 300, "Successfully assigned team/fashion-worker-0 to gpu-node-03"),
        ("Running", "fashion", 300, "all 3 replicas run; chief-0 leads"),
        ("Restarting", "fashion", 95,
         "training restarts as attempt 1: annotation tfdist.dev/restartedAt requests a restart"),
        ("Scheduled", "prices-worker-0", 259, "Successfully assigned team/prices-worker-0 to node-7"),
        ("Failed", "prices", 200, PRICES.message),
    ):  # fmt: skip
        put_event(cluster, name, reason, seconds, message)
    return cluster


def put_pod(cluster: StoredCluster, replica: str, *, is_running: bool = True) -> None:
    """Store a pod of the job `fashion`, which runs or waits for its image."""
    role, _, index = replica.partition("-")
    state: Json = {"running": {}} if is_running else {"waiting": {"reason": "ContainerCreating"}}
    labels = {JOB_LABEL: "fashion", JOB_UID_LABEL: RUNNING.uid}
    labels |= {TENSORBOARD_LABEL: RUNNING.uid} if role == "tensorboard" else {ROLE_LABEL: role, INDEX_LABEL: index}
    cluster.put(
        f"{TEAM}/pods/fashion-{replica}",
        metadata={"labels": labels, "uid": replica, "creationTimestamp": at(1900)},
        spec={"containers": [{"name": "tensorflow"}]},
        status={
            "phase": "Running" if is_running else "Pending",
            "containerStatuses": [{"name": "tensorflow", "state": state}],
        },
    )


def put_event(cluster: StoredCluster, about: str, reason: str, seconds: float, message: str) -> None:
    """Store an event about a job or a pod, observed so many seconds ago."""
    kind, uid = ("Pod", about) if "-" in about else ("TFDistJob", RUNNING.uid)
    cluster.put(
        f"{TEAM}/events/{about}.{reason.lower()}",
        metadata={"uid": f"{about}.{reason}", "resourceVersion": "1", "creationTimestamp": at(seconds)},
        involvedObject={"kind": kind, "name": about, "uid": uid},
        type="Warning" if reason == "Failed" else "Normal",
        reason=reason,
        message=message,
        lastTimestamp=at(seconds),
    )


def installed(cluster: StoredCluster) -> None:
    """Store what `tfdist doctor` checks: nothing is missing."""
    cluster.objects["/version"] = {"minor": "37", "gitVersion": "v1.37.1"}
    for kind in KINDS:
        served = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        group = {"group": "tfdist.dev", "kind": kind.kind, "version": kind.version}
        cluster.objects[schema_path(kind)] = {
            "components": {"schemas": {"it": served | {"x-kubernetes-group-version-kind": [group]}}}
        }
    cluster.put(
        "/apis/apps/v1/namespaces/tfdist-system/deployments/tfdist-controller",
        metadata={"namespace": "tfdist-system", "labels": {"app.kubernetes.io/name": "tfdist-controller"}},
        spec={"replicas": 2},
        status={"readyReplicas": 2},
    )
    cluster.objects[TEAM] = {"metadata": {"name": "team"}}
    cluster.put(f"{TEAM}/resourcequotas/team", status={"hard": {"pods": "10"}, "used": {"pods": "3"}})
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    cluster.put("/apis/storage.k8s.io/v1/storageclasses/standard", metadata=default)
    for number in (1, 2):
        cluster.put(f"/api/v1/nodes/gpu-node-{number}", status={"allocatable": {"nvidia.com/gpu": "4"}})
    cluster.put("/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns", endpoints=[{}, {}],
                metadata={"labels": {"kubernetes.io/service-name": "kube-dns"}})  # fmt: skip


@contextlib.contextmanager
def connected(cluster: StoredCluster) -> Iterator[None]:
    """Have each client send its requests to the cluster; its kubeconfig has the contexts `team` and `production`."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "team",
        "clusters": [{"name": "cluster", "cluster": {"server": "https://10.0.0.1:6443"}}],
        "users": [{"name": "user", "user": {"token": "token"}}],
        "contexts": [_context("team"), _context("production")],
    }
    path = pathlib.Path(".kube/config")
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(path))
        patch.setattr(ApiClient, "call_api", lambda _, *request, **options: cluster.call_api(*request, **options))
        yield


def _context(name: str) -> Json:
    return {"name": name, "context": {"cluster": "cluster", "user": "user", "namespace": "team"}}


def _collections(path: str) -> tuple[str, str]:
    """Return the lists that have an object: that of its namespace, and that of all."""
    collection = path.rpartition("/")[0]
    return collection, re.sub("/namespaces/[^/]+", "", collection)


def _matches(stored: Json, selector: str) -> bool:
    """Return whether an object has the labels of a selector, `name=value` or `name`."""
    labels = stored["metadata"].get("labels", {})
    terms: Sequence[str] = [term for term in selector.split(",") if term]
    return all(
        labels.get(name) == value if equals else name in labels
        for name, equals, value in (term.partition("=") for term in terms)
    )
