"""Every query of the dashboards and every alert, asked of a real Prometheus that watches the real controller."""

import json
import re
import uuid
from collections.abc import Iterator
from typing import Final

import pytest
from support.api import JOBS, Api
from support.monitored_installation import Installation, monitored_installation
from support.polling import wait_for
from support.prometheus import Series
from support.trainers import report

from tfdist_demo.helm import CHART

pytestmark = [pytest.mark.integration, pytest.mark.long]

QUERIES: Final = {
    f"{path.stem}: {panel['title']}: {target['refId']}": target["expr"]
    for path in sorted((CHART / "files/dashboards").glob("*.json"))
    for panel in json.loads(path.read_text())["panels"]
    for target in panel["targets"]
}


def as_shown(expression: str) -> str:
    """Return a query as Grafana sends it when all jobs are chosen."""
    return re.sub(r"\$\w+", ".*", expression)


@pytest.fixture(scope="module")
def installation(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Jobs that train, succeed, fail, are restarted or get no pods; Prometheus has scraped all of it."""
    namespace = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    with monitored_installation(api, namespace, tmp_path_factory.mktemp("monitored")) as installation:
        for name in ("trains", "done", "failed", "crashed"):
            installation.submit(name)
        missing = {"spec": {"priorityClassName": "missing"}}
        installation.submit(
            "rejected", template=missing, scheduling={"gang": "None"}
        )  # a PodGroup is rejected before the pods
        for name in ("trains", "done", "failed", "crashed"):
            installation.await_phase(name, "Running")
        installation.trainers.serve("trains-worker-0", lambda: report(300, 1000, 512.0, 125.0))
        installation.trainers.serve("done-worker-0", lambda: report(990, 1000, 256.0, 250.0))
        wait_for("progress of both", lambda: len(installation.prometheus.now("tfdist_job_progress_ratio")) == 2)
        installation.end("done", 0)
        installation.end("failed", 66, workers=1)
        installation.end("crashed", 137, workers=1)
        installation.await_phase("done", "Succeeded")
        installation.await_phase("failed", "Failed")
        installation.await_phase("crashed", "Running", attempt=1)
        wait_for("Prometheus to see all of it", lambda: has_seen(installation), 120)
        yield installation
    api.do("DELETE", f"/api/v1/namespaces/{namespace}")


def has_seen(installation: Installation) -> bool:
    """Return whether the newest figures are those of the end of the story, and rates have two points."""
    phases = by("phase", installation.prometheus.now("max by (phase) (tfdist_jobs)"))
    ended = installation.prometheus.now("sum(increase(tfdist_job_duration_seconds_count[1h])) > 1.5")
    restarted = installation.prometheus.now("sum(increase(tfdist_restarts_total[1h])) > 0.5")
    late = installation.prometheus.now('rate(tfdist_api_requests_total{resource="pods",code="403"}[5m]) > 0')
    training = installation.prometheus.now("tfdist_job_progress_ratio")
    return bool(phases.get("Running") == 2 and ended and restarted and late and len(training) == 1)


def by(label: str, series: list[Series]) -> dict[str, float]:
    return {one.labels[label]: one.last for one in series}


@pytest.mark.parametrize("where", QUERIES)
def test_a_panel_s_query_has_data(installation: Installation, where: str) -> None:
    assert installation.prometheus.now(as_shown(QUERIES[where]))


def panel(installation: Installation, title: str, number: str = "A") -> list[Series]:
    (query,) = [q for where, q in QUERIES.items() if where.endswith(f": {title}: {number}")]
    return installation.prometheus.now(as_shown(query))


def test_the_panels_show_the_state_of_the_jobs(installation: Installation) -> None:
    jobs = installation.api.do("GET", JOBS.format(ns=installation.namespace))["items"]
    phases = by("phase", panel(installation, "Jobs by phase"))
    assert sum(phases.values()) == len(jobs)
    assert {phase: phases[phase] for phase in ("Running", "Succeeded", "Failed")} == {
        "Running": 2,
        "Succeeded": 1,
        "Failed": 1,
    }
    ended = by("result", panel(installation, "Finished jobs per hour"))
    assert {result: is_about_one(value) for result, value in ended.items()} == {"Succeeded": True, "Failed": True}
    restarts = by("reason", panel(installation, "Restarts per hour by reason"))
    assert {reason: is_about_one(value) for reason, value in restarts.items()} == {"Crash": True}
    assert [one.last for one in panel(installation, "Leaders")] == [1]


def is_about_one(increase: float) -> bool:
    """Return whether it may be one event: of a short time `increase` makes up to twice as much."""
    return 0.5 < increase < 2.1


def test_a_job_s_series_are_those_of_its_coordinator_and_end_with_it(installation: Installation) -> None:
    for title, value in (("Progress", 0.3), ("Examples per second", 512.0), ("Step time", 0.125)):
        values = {(one.labels["namespace"], one.labels["name"]): one.last for one in panel(installation, title)}
        assert values == {(installation.namespace, "trains"): value}


def test_a_rejected_request_is_among_the_failed_ones(installation: Installation) -> None:
    requests = panel(installation, "Failed requests")
    assert ("pods", "403") in {(one.labels["resource"], one.labels["code"]) for one in requests}


def test_prometheus_scrapes_both_replicas(installation: Installation) -> None:
    assert [target["health"] for target in installation.prometheus.targets()] == ["up", "up"]


def test_every_alert_is_evaluated_and_none_fires_of_itself(installation: Installation) -> None:
    rules = installation.prometheus.rules()
    assert len(rules) >= 6
    assert {rule["health"] for rule in rules} == {"ok"}
    assert {rule["name"] for rule in rules if rule["state"] != "inactive"} <= {"TFDistAPIRequestsRejected"}
