"""Kueue as a process: its CRDs, webhooks and aggregated API, all reached by the API server on this machine.

It has no integration with pods: it admits the Workloads that a controller creates, among them those of TFDistJobs.
"""

import base64
import pathlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import yaml

from support.api import Api, Json
from support.polling import wait_for
from support.ports import free_ports
from support.schedulers import crds
from support.schedulers.program import running
from tfdist.api.resource import GROUP as JOB_GROUP
from tfdist.api.resource import KIND as JOB_KIND
from tfdist.api.resource import VERSION as JOB_VERSION
from tfdist_cluster.control_plane import healthy
from tfdist_cluster.schedulers import CERTIFICATES, KUEUE, VISIBILITY_PORT
from tfdist_operator.webhook.certificates import AUTHORITY, CERTIFICATE, KEY, renew_certificates

GROUP: Final = "kueue.x-k8s.io"
API: Final = f"/apis/{GROUP}/v1beta1"
WORKLOADS: Final = API + "/namespaces/{ns}/workloads"
PENDING: Final = "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/{ns}/localqueues/{queue}/pendingworkloads"
"""The Workloads that wait in a LocalQueue, with their positions."""

LOOPBACK: Final = "127.0.0.1"
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
_AGGREGATED: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
_NAMESPACE: Final = "kueue-system"
_SERVER: Final = "visibility-server"


@dataclass(frozen=True, slots=True)
class _Servers:
    """Address and ports of its servers, and the CA of their certificate in base64."""

    address: str
    webhook: int
    health: int
    visibility: int
    authority: str

    def client(self, path: str) -> Json:
        """Return how the API server calls a webhook."""
        return {"url": f"https://{self.address}:{self.webhook}{path}", "caBundle": self.authority}


@contextmanager
def kueue(api: Api, folder: pathlib.Path, address: str = LOOPBACK) -> Iterator[None]:
    """Run Kueue until the block ends.

    Args:
        api: the API server.
        folder: for its configuration, certificate and log.
        address: of this machine for the API server. The aggregated API is served at the loopback address only.
    """
    components = KUEUE.source() / "config" / "components"
    webhook, health, visibility = free_ports(3)
    servers = _Servers(address, webhook, health, visibility, _make_certificate(folder / CERTIFICATES, address))
    (folder / "kueue.yaml").write_text(yaml.safe_dump(_configuration(servers)))
    options = ["--config=kueue.yaml", f"--kubeconfig={api.kubeconfig}"]
    variables = {"KUBECONFIG": str(api.kubeconfig), VISIBILITY_PORT: str(servers.visibility)}
    with (
        crds.installed(api, _crds(components / "crd", servers)),
        running("kueue", options, folder, lambda: healthy(f"http://127.0.0.1:{health}/readyz"), **variables),
        _webhooks(api, components / "webhook", servers),  # removed before Kueue stops: without it, they fail
        _aggregated_api(api, components / "visibility", servers) if address == LOOPBACK else nullcontext(),  # as above
    ):
        yield


def create_queue(api: Api, namespace: str, name: str, *, cpu: int, cohort: str = "") -> None:
    """Create a LocalQueue with a quota of its own.

    Args:
        api: the API server.
        namespace: of the queue.
        name: of the queue; its ClusterQueue and ResourceFlavor are named after the namespace, too.
        cpu: the quota, which a Workload of a higher priority may take from one of a lower priority.
        cohort: queues of one cohort borrow quota from one another, and reclaim what they have lent.
    """
    whole, flavor = f"{namespace}-{name}", f"{namespace}-{cohort or name}"
    api.apply(_object("ResourceFlavor", flavor), f"{API}/resourceflavors")
    quotas = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
    selector: Json = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec: Json = {
        "namespaceSelector": selector,
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}],
        "preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
    }
    spec |= {"cohort": flavor} if cohort else {}
    api.do("POST", f"{API}/clusterqueues", _object("ClusterQueue", whole) | {"spec": spec})
    local = _object("LocalQueue", name) | {"spec": {"clusterQueue": whole}}
    api.do("POST", f"{API}/namespaces/{namespace}/localqueues", local)


def _object(kind: str, name: str) -> Json:
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": kind, "metadata": {"name": name}}


def _make_certificate(folder: pathlib.Path, address: str) -> str:
    """Write a certificate of an address and its key; return the CA in base64."""
    folder.mkdir()
    pems = renew_certificates({}, [address], datetime.now(UTC))
    assert pems is not None
    for name in (CERTIFICATE, KEY):
        (folder / name).write_bytes(pems[name])
    return base64.b64encode(pems[AUTHORITY]).decode()


def _configuration(servers: _Servers) -> Json:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "integrations": {
            "frameworks": ["batch/job"],  # also what an empty list means
            "externalFrameworks": [f"{JOB_KIND}.{JOB_VERSION}.{JOB_GROUP}"],
        },
        "manageJobsWithoutQueueName": False,
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "webhook": {"host": servers.address, "port": servers.webhook, "certDir": CERTIFICATES},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{servers.health}"},
        "metrics": {"bindAddress": "0"},
        "clientConnection": {"qps": 500, "burst": 1000},
    }


def _crds(folder: pathlib.Path, servers: _Servers) -> list[Json]:
    """Return its CRDs, with the conversion webhooks that its kustomization adds."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    definitions = {
        crd["metadata"]["name"]: crd for name in kustomization["resources"] for crd in crds.documents(folder / name)
    }
    for patch in kustomization["patches"]:
        (added,) = crds.documents(folder / patch["path"])
        webhook = added["spec"]["conversion"]["webhook"]
        client = servers.client(webhook["clientConfig"]["service"]["path"])
        conversion = {"strategy": "Webhook", "webhook": webhook | {"clientConfig": client}}
        definitions[added["metadata"]["name"]]["spec"]["conversion"] = conversion
    return list(definitions.values())


@contextmanager
def _webhooks(api: Api, folder: pathlib.Path, servers: _Servers) -> Iterator[None]:
    """Configure the webhooks of its own resources; those of jobs and pods are of integrations that are not in use."""
    paths = []
    for configuration in crds.documents(folder / "manifests.yaml"):
        kept = [each for each in configuration["webhooks"] if each["rules"][0]["apiGroups"] == [GROUP]]
        for webhook in kept:
            webhook["clientConfig"] = servers.client(webhook["clientConfig"]["service"]["path"])
        meta = {"name": f"kueue-{configuration['metadata']['name']}"}
        collection = f"{_WEBHOOKS}/{configuration['kind'].lower()}s"
        api.apply(configuration | {"metadata": meta, "webhooks": kept}, collection)
        paths.append(f"{collection}/{meta['name']}")
    yield from _until_removed(api, paths)


@contextmanager
def _aggregated_api(api: Api, folder: pathlib.Path, servers: _Servers) -> Iterator[None]:
    """Serve the API of pending Workloads, by a Service that is a name of this machine."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}, "/api/v1/namespaces")
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _SERVER}, "spec": spec}
    api.apply(service, f"/api/v1/namespaces/{_NAMESPACE}/services")
    paths = []
    for file in folder.glob("apiservice_*.yaml"):
        (document,) = crds.documents(file)
        document["spec"]["service"]["port"] = servers.visibility
        api.apply(document, _AGGREGATED)
        paths.append(f"{_AGGREGATED}/{document['metadata']['name']}")
    for path in paths:
        wait_for(f"{path} to be available", partial(_is_available, api, path), context=partial(_status, api, path))
    yield from _until_removed(api, paths)


def _status(api: Api, path: str) -> str:
    return str(api.do("GET", path).get("status"))


def _is_available(api: Api, path: str) -> bool:
    conditions = api.do("GET", path).get("status", {}).get("conditions", ())
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def _until_removed(api: Api, paths: Sequence[str]) -> Iterator[None]:
    try:
        yield
    finally:
        for path in paths:
            api.send("DELETE", path)
