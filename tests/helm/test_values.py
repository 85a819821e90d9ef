"""The values of the chart: documented, and rejected if they are invalid."""

import json
import pathlib
import subprocess
import sys

import pytest
import yaml
from support.api import Json
from support.chart import VALUES, Chart

from tfdist_cluster.errors import CommandError
from tfdist_demo.helm import CHART, Helm

ROOT = CHART.parents[1]
LABELS, FIRST = "/podDefaults/metadata/labels", "/podDefaults/spec/tolerations/0"


@pytest.mark.parametrize("name", VALUES)
def test_helm_finds_nothing_to_criticise(helm: Helm, chart: Chart, name: str) -> None:
    values = chart.folder / "lint.yaml"
    values.write_text(yaml.safe_dump(VALUES[name]))
    assert "0 chart(s) failed" in helm.run("lint", "--strict", f"--values={values}", str(CHART))


@pytest.mark.parametrize(
    ("values", "path", "message"),
    [
        ({"replica": 3}, "", "additional properties 'replica' not allowed"),
        ({"replicas": 0}, "/replicas", "minimum: got 0, want 1"),
        ({"replicas": "two"}, "/replicas", "got string, want integer"),
        ({"namespaces": "team-a"}, "/namespaces", "got string, want array"),
        ({"namespaces": ["Team_A"]}, "/namespaces/0", "'Team_A' does not match pattern"),
        ({"namespaces": ["a", "a"]}, "/namespaces", "items at 0 and 1 are equal"),
        ({"image": {"repository": ""}}, "/image/repository", "minLength: got 0, want 1"),
        ({"image": {"digest": "latest"}}, "/image/digest", "'latest' does not match pattern"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", "value must be one of"),
        ({"settings": {"logLevel": "LOUD"}}, "/settings/logLevel", "value must be one of"),
        ({"settings": {"progressPollSeconds": 0}}, "/settings/progressPollSeconds", "exclusiveMinimum: got 0, want 0"),
        ({"settings": {"clusterDomain": "cluster.local."}}, "/settings/clusterDomain", "'cluster.local.' does"),
        ({"settings": {"resyncSeconds": 0}}, "/settings/resyncSeconds", "exclusiveMinimum: got 0, want 0"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "/networkPolicy/apiServerPorts/0", "minimum: got 0, want 1"),
        ({"crds": {"keep": "yes"}}, "/crds/keep", "got string, want boolean"),
        ({"resources": {"limit": {}}}, "/resources", "additional properties 'limit' not allowed"),
        ({"resources": {"limits": {"memory": "lots"}}}, "/resources/limits/memory", "'lots' does not match pattern"),
        ({"podLabels": {"cost": 42}}, "/podLabels/cost", "got number, want string"),
        ({"podDefaults": {"metadata": {"labels": {"cost": 42}}}}, f"{LABELS}/cost", "got number, want string"),
        ({"podDefaults": {"spec": {"nodeselector": {}}}}, "/podDefaults/spec", "additional properties 'nodeselector'"),
        ({"podDefaults": {"spec": {"tolerations": [{"effect": "No"}]}}}, f"{FIRST}/effect", "value must be one of"),
        ({"tolerations": [{"tolerationSecond": 1}]}, "/tolerations/0", "additional properties 'tolerationSecond'"),
        ({"affinity": {"nodeaffinity": {}}}, "/affinity", "additional properties 'nodeaffinity' not allowed"),
    ],
    ids=lambda given: json.dumps(given) if isinstance(given, dict) else None,
)
def test_an_invalid_value_is_rejected_with_its_path(chart: Chart, values: Json, path: str, message: str) -> None:
    with pytest.raises(CommandError) as rejected:
        chart.text(values)
    assert f"at '{path}': {message}" in rejected.value.output


@pytest.mark.parametrize("amount", [2, 0.5, "500m", "1Gi", "1.5"])
def test_an_amount_is_written_as_in_a_pod(chart: Chart, amount: float | str) -> None:
    made = chart.one("Deployment", resources={"limits": {"cpu": amount}})["spec"]["template"]["spec"]
    assert made["containers"][0]["resources"]["limits"]["cpu"] == amount


def test_a_part_of_a_template_needs_not_be_whole(chart: Chart) -> None:
    container = {"name": "tensorflow", "env": [{"name": "A", "value": "b"}], "resources": {"limits": {"cpu": 2}}}
    assert chart.text({"podDefaults": {"metadata": {"labels": {"cost": "42"}}, "spec": {"containers": [container]}}})


def test_a_parent_chart_may_hand_its_global_values_down(chart: Chart) -> None:
    assert chart.text({"global": {"registry": "images.example.com"}})


def test_a_helm_that_asks_no_cluster_renders_the_chart_too(helm: Helm) -> None:
    """One that is built from its module, as this repository's, assumes Kubernetes 1.20."""
    assert "kind: Deployment" in helm.run("template", "tfdist", str(CHART))


@pytest.mark.parametrize("version", ["1.28.15", "1.20.1"])
def test_a_kubernetes_version_that_is_too_old_is_rejected(helm: Helm, version: str) -> None:
    with pytest.raises(CommandError) as rejected:
        helm.run("template", "tfdist", str(CHART), f"--kube-version={version}")
    assert "chart requires kubeVersion: >=1.29.0-0" in rejected.value.output


@pytest.mark.parametrize(("version", "has_it"), [("1.29.15", False), ("1.30.0", True), ("1.37.1", True)])
def test_the_definition_has_no_field_that_an_older_kubernetes_does_not_know(
    helm: Helm, version: str, has_it: bool
) -> None:
    text = helm.run("template", "tfdist", str(CHART), f"--kube-version={version}", "--show-only=templates/crds.yaml")
    assert ("selectableFields" in text) is has_it


def test_the_generated_files_are_those_of_their_sources(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, ROOT / "hack/generate/helm/generate.py", tmp_path], check=True)
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 7
    for path in written:
        assert (CHART / path).read_text() == (tmp_path / path).read_text(), f"{path}: run `make generate`"
