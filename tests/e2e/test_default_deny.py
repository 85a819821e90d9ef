"""Jobs in a namespace that denies every connection by default: they work, and open nothing of it.

The programs are a few lines of Python that listen on ports of their own, as collectives, debuggers and metrics do.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.failing_jobs import JobNamespace, own_namespace, small_job
from support.polling import wait_for

from tfdist import contract
from tfdist_cluster.errors import ClusterError
from tfdist_demo import manifests

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(420)]

OPENED, EPHEMERAL = 9000, 43567
CLOSED: Final = (contract.TF_PORT, contract.REPORT_PORT, contract.LAUNCH_PORT, 5000, EPHEMERAL)
STRANGER: Final = "stranger"
JOBS: Final = 30

SERVES: Final = """
import http.server, json, os, socket, sys, threading, time
job, begun = json.loads(os.environ["TFDIST_JOB"]), time.monotonic()
def accept(listening):
    while True:
        listening.accept()[0].close()
for port in map(int, sys.argv[1:]):
    threading.Thread(target=accept, args=(socket.create_server(("", port)),), daemon=True).start()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        report = {"role": job["role"], "index": job["index"], "attempt": job["attempt"], "phase": "training"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(report | {"step": int(time.monotonic() - begun)}).encode())
http.server.ThreadingHTTPServer(("", 8790), Handler).serve_forever()
"""
"""Listens on the ports that it is given, and reports one step a second."""

MEETS: Final = """
import json, os, socket, sys, time
port, index = int(sys.argv[1]), json.loads(os.environ["TFDIST_JOB"])["index"]
hosts = [address.partition(":")[0] for address in json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"]]
listening = socket.create_server(("", port))
for host in hosts[:index]:
    while True:
        try:
            socket.create_connection((host, port), 3).close()
            break
        except OSError:
            time.sleep(0.2)
for _ in hosts[index + 1:]:
    listening.accept()
"""
"""Ends when each worker has had a connection to each other one, on a port that no other program knows of."""

CONNECT: Final = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Iterator[JobNamespace]:
    """A namespace that denies everything, and in it a job that opens one port for the controller's namespace."""
    with own_namespace(cluster, "closed") as jobs:
        deny = {"podSelector": {}, "policyTypes": ["Ingress"]}
        metadata = {"name": "default-deny", "namespace": jobs.cluster.namespace}
        policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": deny}
        cluster.kubectl.apply(policy)
        peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.kubectl.place.system}}}
        ports = [str(port) for port in (*CLOSED, OPENED) if port != contract.REPORT_PORT]
        opened: list[Json] = [{"from": [peer], "ports": [{"port": OPENED}]}]
        jobs.start(small_job("serves", SERVES, *ports, replicas=2, networkPolicyIngress=opened))
        yield jobs


@contextmanager
def stranger(cluster: Cluster, image: str) -> Iterator[None]:
    """Have a pod run in the controller's namespace that is none of the controller's."""
    system = cluster.kubectl.place.system
    pod: dict[str, Any] = copy.deepcopy(dict(manifests.loader(image, system)))
    pod["metadata"]["name"] = STRANGER
    pod["spec"]["volumes"] = [v for v in pod["spec"]["volumes"] if "emptyDir" in v]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "tmp", "mountPath": manifests.TMP}]
    delete = ("delete", "pod", STRANGER, f"--namespace={system}", "--ignore-not-found", "--now")
    cluster.kubectl.run(*delete)
    cluster.kubectl.apply(pod)
    try:
        cluster.kubectl.run(
            "wait", "--for=condition=Ready", f"pod/{STRANGER}", f"--namespace={system}", "--timeout=50s"
        )
        yield
    finally:
        cluster.kubectl.run(*delete, "--wait=false")


def reaches(cluster: Cluster, namespace: str, pod: str, address: str, port: int) -> bool:
    """Return whether a pod gets a connection."""
    command = ("python", "-c", CONNECT, address, str(port))
    try:
        cluster.kubectl.run("exec", f"--namespace={namespace}", pod, "--", *command)
    except ClusterError:
        return False
    return True


def test_the_job_s_pods_reach_each_other_on_every_port(jobs: JobNamespace) -> None:
    first, second = (pod for pod in jobs.runs("serves"))
    address, here = first["status"]["podIP"], second["metadata"]["name"]
    for port in (*CLOSED, OPENED):
        connects = (jobs.cluster, jobs.cluster.namespace, here, address, port)
        wait_for(f"port {port} to be open", partial(reaches, *connects))


def test_from_another_namespace_what_the_job_opens_is_open_and_nothing_else(
    jobs: JobNamespace, images: dict[str, str]
) -> None:
    """The report port is closed too, though the stranger is in the controller's namespace."""
    system = jobs.cluster.kubectl.place.system
    addresses = [pod["status"]["podIP"] for pod in jobs.runs("serves")]
    with stranger(jobs.cluster, images["trainer"]):
        for address in addresses:
            connects = (jobs.cluster, system, STRANGER, address, OPENED)
            wait_for(f"port {OPENED} to be open", partial(reaches, *connects))
            assert [port for port in CLOSED if reaches(jobs.cluster, system, STRANGER, address, port)] == []


def test_the_controller_reads_the_progress(jobs: JobNamespace) -> None:
    def step() -> int:
        current: int = jobs.cluster.job("serves").get("status", {}).get("progress", {}).get("step", 0)
        return current

    before = step()
    wait_for("a further step", lambda: step() > before)


def test_thirty_jobs_at_once_find_their_members(jobs: JobNamespace) -> None:
    """A new pod's address is in the firewalls of all nodes only after a moment: each program tries again until then."""
    names = [f"meets-{number}" for number in range(JOBS)]
    jobs.start(*(small_job(name, MEETS, str(EPHEMERAL), replicas=2) for name in names))
    assert {name: jobs.ended(name, seconds=300)["phase"] for name in names} == dict.fromkeys(names, "Succeeded")
