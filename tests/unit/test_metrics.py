"""The page about the metrics and the metrics themselves say the same."""

import pathlib
import re

from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase

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
