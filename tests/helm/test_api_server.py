"""A real API server takes every object of the chart, whatever the values, and finds no unknown field.

What the Prometheus operator brings is held against its own definitions, from its Go module.
"""

import json
import pathlib
import subprocess
from collections.abc import Iterator

import pytest
import yaml
from support.api import Json
from support.chart import MONITORING, NAMESPACE, VALUES, Chart
from support.control_plane import control_plane

from tfdist_cluster.paths import State

pytestmark = pytest.mark.integration

OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
MONITORING_GROUP = MONITORING.partition("/")[0]
MONITORED = ("servicemonitors", "prometheusrules")


class Server:
    """kubectl, with an administrator's rights."""

    def __init__(self, kubeconfig: pathlib.Path) -> None:
        self._program = State.from_environment().bin / "kubectl"
        self._kubeconfig = kubeconfig

    def apply(self, objects: list[Json], *options: str) -> str:
        """Apply objects and return all that kubectl says, warnings too."""
        listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        return self._run("apply", "--server-side", *options, "-f", "-", stdin=listing)

    def wait(self, condition: str, what: str) -> None:
        """Wait until an object is as wanted."""
        self._run("wait", condition, what, "--timeout=60s")

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
    with control_plane(fake_nodes=0) as kubeconfig:
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
    said = server.apply(objects, "--dry-run=server", "--validate=strict")
    assert "Warning" not in said
    assert said.count("serverside-applied (server dry run)") == len(objects)


@pytest.mark.parametrize("name", VALUES)
def test_every_object_is_taken_without_a_warning(server: Server, chart: Chart, name: str) -> None:
    objects = [o for o in chart.render(**VALUES[name]) if o["apiVersion"] != MONITORING]
    assert len(objects) >= 4
    said = server.apply(objects, "--dry-run=server", "--validate=strict")
    assert "Warning" not in said
    assert said.count("serverside-applied (server dry run)") == len(objects)
