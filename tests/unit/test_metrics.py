"""The page about the metrics has exactly the defined metrics, with their kinds and labels."""

import pathlib
import re
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase
from support.factories import NOW
from support.statuses import status_of

from tfdist.status.phase import starting_seconds
from tfdist_operator import metrics

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


def documented() -> dict[str, tuple[str, frozenset[str]]]:
    """Return kind and labels by name, as the page gives them."""
    rows = re.findall(r"^\| `(tfdist_\w+)` \| (\w+) \| ([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {name: (kind, frozenset(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def defined() -> dict[str, tuple[str, frozenset[str]]]:
    """Return kind and labels by name, as a scrape shows them."""
    found = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if family.type == "counter" else family.name
            found[name] = (family.type, frozenset(metric._labelnames))
    return found


def test_every_metric_is_documented_with_its_kind_and_labels_and_no_other() -> None:
    assert documented() == defined()


def test_a_scrape_holds_no_time_of_creation() -> None:
    metrics.RESTARTS.labels(reason="Crash").inc(0)
    assert b"_created" not in generate_latest()


def starting(since: str, **status: Any) -> float:
    ready = {"type": "PodsReady", "status": "False", "lastTransitionTime": since}
    return starting_seconds(status_of({"phase": "Starting", "conditions": [ready]} | status), NOW)


def test_a_job_starts_for_as_long_as_its_replicas_have_not_been_ready() -> None:
    assert starting("2030-01-02T03:03:05Z") == 60
    assert starting("2030-01-02T03:03:05Z", phase="Running") == 0
    assert starting("2030-01-02T04:00:00Z") == 0, "the clock of another replica is ahead"


@pytest.mark.parametrize("status", [{"conditions": []}, {"conditions": [{"type": "PodsReady"}]}, {"conditions": [1]}])
def test_a_status_that_was_written_by_hand_does_not_end_a_scrape(status: Any) -> None:
    assert starting("", **status) == 0
    assert starting("yesterday") == 0
