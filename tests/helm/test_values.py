"""The values of the chart: documented, and refused where they are wrong."""

import json
import pathlib
import subprocess
import sys
import tomllib

import pytest
import yaml
from support.api import Json
from support.chart import VALUES, Chart

from tfdist_cluster.errors import CommandError
from tfdist_demo.helm import CHART, Helm

ROOT = CHART.parents[1]


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
        ({"networkPolicy": {"apiServerPorts": [0]}}, "/networkPolicy/apiServerPorts/0", "minimum: got 0, want 1"),
        ({"crds": {"keep": "yes"}}, "/crds/keep", "got string, want boolean"),
        ({"resources": {"limit": {}}}, "/resources", "additional properties 'limit' not allowed"),
    ],
    ids=lambda given: json.dumps(given) if isinstance(given, dict) else None,
)
def test_a_wrong_value_is_refused_with_its_path(chart: Chart, values: Json, path: str, message: str) -> None:
    with pytest.raises(CommandError) as refused:
        chart.text(values)
    assert f"at '{path}': {message}" in refused.value.output


def test_a_parent_chart_may_hand_its_global_values_down(chart: Chart) -> None:
    assert chart.text({"global": {"registry": "images.example.com"}})


def test_the_chart_s_version_is_that_of_the_controller() -> None:
    project = tomllib.loads((ROOT / "operator/pyproject.toml").read_text())["project"]
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert described["version"] == described["appVersion"] == project["version"]


def test_the_generated_files_are_those_of_their_sources(tmp_path: pathlib.Path) -> None:
    subprocess.run([sys.executable, ROOT / "helm/generate.py", tmp_path], check=True)
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) >= 7
    for path in written:
        assert (CHART / path).read_text() == (tmp_path / path).read_text(), f"{path}: run `make generate`"
