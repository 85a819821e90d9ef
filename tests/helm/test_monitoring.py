"""Dashboards and alerts speak of metrics and labels that the controller has, in queries that Prometheus takes."""

import json
import pathlib
import re
import subprocess

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from support.prometheus import program

from tfdist_demo.helm import CHART
from tfdist_operator import metrics

ALERTS = CHART / "files/alerts.yaml"
OF_HISTOGRAM = ("_bucket", "_count", "_sum")


def queries() -> dict[str, str]:
    """Return every query by where it stands."""
    found = {}
    for path in sorted((CHART / "files/dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                found[f"{path.stem}: {panel['title']}: {target['refId']}"] = target["expr"]
    for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]:
        found[rule["alert"]] = rule["expr"]
    return found


QUERIES = queries()


def series() -> dict[str, set[str]]:
    """Return the labels of every series of the controller by its name."""
    found: dict[str, set[str]] = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            labels = set(metric._labelnames)
            match family.type:
                case "counter":
                    found[f"{family.name}_total"] = labels
                case "histogram":
                    found |= {f"{family.name}{end}": labels | {"le"} for end in OF_HISTOGRAM}
                case _:
                    found[family.name] = labels
    return found


@pytest.mark.parametrize("where", QUERIES)
def test_a_query_names_metrics_and_labels_that_there_are(where: str) -> None:
    query, known = QUERIES[where], series()
    named = set(re.findall(r"\btfdist_\w+", query))
    assert named, "it asks for nothing of ours"
    assert named <= known.keys()
    labels = set().union(*(known[name] for name in named))
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", query) for label in re.split(r",\s*", group)}
    matched = set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!)", query))
    assert grouped | matched <= labels


def test_each_alert_has_a_cause_and_a_remedy() -> None:
    for rule in yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]:
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "description"}


def check(*arguments: str | pathlib.Path) -> None:
    """Run promtool, which ends with a status other than 0 if it finds an error."""
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_every_query_and_alert(tmp_path: pathlib.Path) -> None:
    recorded = [{"record": f"panel:{n}", "expr": re.sub(r"\$\w+", ".*", q)} for n, q in enumerate(QUERIES.values())]
    panels = tmp_path / "panels.yaml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    check("check", "rules", ALERTS, panels)


def test_the_alerts_fire_when_they_should_and_not_before(tmp_path: pathlib.Path) -> None:
    scenario = yaml.safe_load((pathlib.Path(__file__).parent / "alerts_test.yaml").read_text())
    file = tmp_path / "alerts_test.yaml"
    file.write_text(yaml.safe_dump(scenario | {"rule_files": [str(ALERTS)]}))
    check("test", "rules", file)
