"""A real API server takes every object of the chart, whatever the values, and finds no unknown field.

What the Prometheus operator brings is held against its own definitions, from its Go module.
"""

import json
import pathlib
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support.api import Json
from support.chart import MONITORING, NAMESPACE, VALUES, Chart
from support.control_plane import control_plane
from support.factories import manifest
from support.polling import wait_for

from tfdist_cluster.paths import State
from tfdist_demo.helm import Helm, program

pytestmark = pytest.mark.integration

OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
MONITORING_GROUP = MONITORING.partition("/")[0]
NODES = 2
"""Fake ones, without a label of their zone, as those of kind, kubeadm and bare metal are."""
MONITORED = ("servicemonitors", "prometheusrules")


class Server:
    """kubectl, with an administrator's rights."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        self._program = State.from_environment().bin / "kubectl"
        self._kubeconfig = kubeconfig

    def apply(self, objects: list[Json], *options: str) -> str:
        """Apply objects and return the output of kubectl with its warnings."""
        listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        return self._run("apply", "--server-side", *options, "-f", "-", stdin=listing)

    def wait(self, condition: str, what: str) -> None:
        """Wait until an object is as wanted."""
        self._run("wait", condition, what, "--timeout=60s")

    def rejection(self, made: Json) -> str:
        """Return the error of the API server for an object; "" if it accepts it. Nothing is stored."""
        try:
            self._run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(made))
        except AssertionError as error:
            return str(error)
        return ""

    def rolled_out(self, deployment: str) -> None:
        """Wait until the newest pods of a Deployment, and no others, are ready."""
        self._run("rollout", "status", f"deployment/{deployment}", f"--namespace={NAMESPACE}", "--timeout=60s")

    def restart(self, deployment: str) -> None:
        """Replace the pods of a Deployment, as a person does."""
        annotation = {"restarted": uuid.uuid4().hex}  # that of `kubectl rollout restart` is the same for a second
        patch = json.dumps({"spec": {"template": {"metadata": {"annotations": annotation}}}})
        self._run("patch", f"deployment/{deployment}", f"--namespace={NAMESPACE}", "--type=merge", f"--patch={patch}")
        self.rolled_out(deployment)

    def nodes_of(self, selector: str) -> list[str]:
        """Return the nodes of the pods that are there to stay."""
        listed = json.loads(
            self._run("get", "pods", f"--namespace={NAMESPACE}", f"--selector={selector}", "--output=json")
        )
        stay = [pod for pod in listed["items"] if "deletionTimestamp" not in pod["metadata"]]
        return [pod["spec"]["nodeName"] for pod in stay]

    def _run(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            [self._program, f"--kubeconfig={self._kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


def namespace(name: str) -> Json:
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with control_plane(fake_nodes=NODES) as kubeconfig:
        made = Server(kubeconfig)
        made.apply([namespace(name) for name in (NAMESPACE, "team-a", "team-b")])
        account = {"name": "tfdist-controller", "namespace": NAMESPACE}
        made.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account}])  # that of the test's pod
        yield made


@pytest.fixture(scope="module")
def definitions() -> list[Json]:
    """Those of the Prometheus operator that the chart makes objects of."""
    command = ["go", "mod", "download", "-json", OPERATOR]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, cwd="/")
    if done.returncode:
        pytest.skip(f"the Go module {OPERATOR} cannot be had: {done.stderr[-200:]}")
    folder = pathlib.Path(json.loads(done.stdout)["Dir"]) / "example/prometheus-operator-crd"
    return [yaml.safe_load((folder / f"{MONITORING_GROUP}_{kind}.yaml").read_text()) for kind in MONITORED]


def test_the_prometheus_operator_takes_what_is_for_it(server: Server, chart: Chart, definitions: list[Json]) -> None:
    server.apply(definitions)
    for definition in definitions:
        server.wait("--for=condition=Established", f"crd/{definition['metadata']['name']}")
    objects = [o for o in chart.render(**VALUES["everything"]) if o["apiVersion"] == MONITORING]
    assert {o["kind"] for o in objects} == {"ServiceMonitor", "PrometheusRule"}
    output = server.apply(objects, "--dry-run=server", "--validate=strict")
    assert "Warning" not in output
    assert output.count("serverside-applied (server dry run)") == len(objects)


@pytest.mark.parametrize("name", VALUES)
def test_every_object_is_taken_without_a_warning(server: Server, chart: Chart, name: str) -> None:
    objects = [o for o in chart.render(**VALUES[name]) if o["apiVersion"] != MONITORING]
    assert len(objects) >= 4
    output = server.apply(objects, "--dry-run=server", "--validate=strict")
    assert "Warning" not in output
    assert output.count("serverside-applied (server dry run)") == len(objects)


def test_two_controllers_never_share_a_node_however_often_they_are_replaced(server: Server, chart: Chart) -> None:
    """Given two nodes without zones, when the Deployment rolls five times, then each node has one controller."""
    kinds = {"Deployment", "ServiceAccount"}
    server.apply([o for o in chart.render() if o["kind"] in kinds], "--force-conflicts")
    server.rolled_out("tfdist-controller")
    found = [sorted(server.nodes_of("app.kubernetes.io/name=tfdist-controller"))]
    for _ in range(5):
        server.restart("tfdist-controller")
        found.append(sorted(server.nodes_of("app.kubernetes.io/name=tfdist-controller")))
    assert found == [["fake-0", "fake-1"]] * 6


def in_worker(**spec: Any) -> Json:
    return {"worker": {"template": {"spec": spec}}}


def secured(**context: Any) -> Json:
    """Return a job whose container has this securityContext."""
    return in_worker(containers=[{"name": "tensorflow", "securityContext": context}])


APP_ARMOR = "container.apparmor.security.beta.kubernetes.io"
BASELINE: Json = {
    "securityContext": {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"level": "s0:c1", "type": "container_t"},
        "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
    },
    "containers": [
        {
            "name": "tensorflow",
            "ports": [{"containerPort": 9000}],
            "livenessProbe": {"httpGet": {"path": "/", "port": 9000}},
            "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
            "securityContext": {
                "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
                "appArmorProfile": {"type": "Localhost", "localhostProfile": "training"},
                "privileged": False,
            },
        }
    ],
}
"""A pod at the limits of the Pod Security Standard "baseline"."""
DENIED: dict[str, tuple[Json, str]] = {
    "privileged": (
        in_worker(containers=[{"name": "tensorflow", "securityContext": {"privileged": True}}]),
        "privileged containers",
    ),
    "privileged init container": (
        {"template": {"spec": {"initContainers": [{"name": "a", "securityContext": {"privileged": True}}]}}},
        "privileged containers",
    ),
    "hostPath of the job": ({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "hostPath volumes"),
    "hostPath of a role": (in_worker(volumes=[{"name": "a", "hostPath": {"path": "/"}}]), "hostPath volumes"),
    "hostPath for checkpoints": (
        {"checkpoint": {"directory": "/ckpt", "volume": {"hostPath": {"path": "/"}}}},
        "hostPath volumes",
    ),
    "hostNetwork": (in_worker(hostNetwork=True), "namespaces of the host"),
    "hostPID": ({"evaluator": {"template": {"spec": {"hostPID": True}}}}, "namespaces of the host"),
    "hostPort": (
        in_worker(containers=[{"name": "tensorflow", "ports": [{"containerPort": 2222, "hostPort": 2222}]}]),
        "remove ports[].hostPort",
    ),
    "added capability": (secured(capabilities={"add": ["SYS_ADMIN"]}), "remove securityContext.capabilities.add"),
    "all capabilities": (secured(capabilities={"drop": ["ALL"], "add": ["CHOWN", "ALL"]}), "additional capabilities"),
    "no seccomp": (secured(seccompProfile={"type": "Unconfined"}), "without seccomp"),
    "no seccomp of the pod": (in_worker(securityContext={"seccompProfile": {"type": "Unconfined"}}), "without seccomp"),
    "no AppArmor": (secured(appArmorProfile={"type": "Unconfined"}), "without AppArmor"),
    "no AppArmor by annotation": (
        {"template": {"metadata": {"annotations": {f"{APP_ARMOR}/tensorflow": "unconfined"}}}},
        "without AppArmor",
    ),
    "SELinux type": (secured(seLinuxOptions={"type": "spc_t"}), "remove securityContext.seLinuxOptions"),
    "SELinux user": (in_worker(securityContext={"seLinuxOptions": {"user": "system_u"}}), "SELinux users"),
    "procMount": (secured(procMount="Unmasked"), "remove securityContext.procMount"),
    "sysctl": (
        in_worker(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        "remove securityContext.sysctls",
    ),
    "HostProcess": (secured(windowsOptions={"hostProcess": True}), "HostProcess containers"),
    "probe of another host": (
        in_worker(containers=[{"name": "tensorflow", "livenessProbe": {"tcpSocket": {"host": "10.0.0.1", "port": 1}}}]),
        "probes and lifecycle hooks",
    ),
    "hook of another host": (
        in_worker(
            containers=[{"name": "tensorflow", "lifecycle": {"preStop": {"httpGet": {"host": "10.0.0.1", "port": 1}}}}]
        ),
        "probes and lifecycle hooks",
    ),
    "a ServiceAccount": (in_worker(serviceAccountName="admin"), "use one of default, trainer"),
    "open ports": ({"networkPolicyIngress": [{}]}, "jobs may not open their pods"),
    "no policy": ({"networkPolicy": "Disabled"}, "jobs may not open their pods"),
}


def job(**spec: Any) -> Json:
    made = manifest("fashion", "team-a", **spec)
    del made["metadata"]["uid"]
    return made


@pytest.fixture(scope="module")
def guarded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """The server with the definition and the policies about jobs in force."""
    made = Chart(Helm(program(), kubeconfig="/nonexistent"), tmp_path_factory.mktemp("chart"))
    kinds = {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    server.apply([o for o in made.render(**VALUES["everything"]) if o["kind"] in kinds])
    server.wait("--for=condition=Established", "crd/tfdistjobs.tfdist.dev")
    wait_for("the policies to be in force", lambda: server.rejection(job(**DENIED["no policy"][0])), seconds=60)
    return server


@pytest.mark.parametrize(("spec", "message"), DENIED.values(), ids=DENIED)
def test_a_job_against_the_policies_is_rejected_with_the_remedy(guarded: Server, spec: Json, message: str) -> None:
    assert message in guarded.rejection(job(**spec))


def test_a_job_that_keeps_to_the_policies_is_accepted(guarded: Server) -> None:
    spec = in_worker(serviceAccountName="trainer", volumes=[{"name": "a", "emptyDir": {}}], hostNetwork=False)
    assert guarded.rejection(job(**spec)) == ""
    assert guarded.rejection(job()) == ""
    annotations = {f"{APP_ARMOR}/tensorflow": "runtime/default", "team": "vision"}
    allowed = {"worker": {"replicas": 2, "template": {"metadata": {"annotations": annotations}, "spec": BASELINE}}}
    assert guarded.rejection(job(**allowed)) == ""
