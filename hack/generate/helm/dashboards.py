"""The Grafana dashboards for jobs and for the controller.

Each panel has a title, a unit and queries. Tests compare the queries with the metrics that the controller exports.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_COLUMNS: Final = 3
_WIDTH: Final = 24 // _COLUMNS
_HEIGHT: Final = 8
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_CHOSEN: Final = {"namespace": "", "name": 'namespace=~"$namespace"'}
"""The label of each variable of a dashboard, and the matcher that limits its values."""
_MEASURED: Final = '__name__=~"tfdist_job_(progress_ratio|examples_per_second|step_time_seconds)"'
"""A program may report only some of them."""
_OF_JOB: Final = '{namespace=~"$namespace",name=~"$name"}'


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: `queries` are pairs of an expression and its legend."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    note: str = ""
    """A remark for the reader, for example when the panel is empty."""


def _quantiles(histogram: str) -> tuple[tuple[str, str], ...]:
    rates = f"sum by (le) (rate({histogram}_bucket[5m]))"
    return tuple((f"histogram_quantile({part}, {rates})", f"quantile {part}") for part in (0.5, 0.99))


JOBS: Final = (
    Panel("Jobs by phase", (("max by (phase) (tfdist_jobs)", "{{phase}}"),)),
    Panel("Progress", ((f"tfdist_job_progress_ratio{_OF_JOB}", "{{namespace}}/{{name}}"),), "percentunit"),
    Panel("Examples per second", ((f"tfdist_job_examples_per_second{_OF_JOB}", "{{namespace}}/{{name}}"),)),
    Panel("Step time", ((f"tfdist_job_step_time_seconds{_OF_JOB}", "{{namespace}}/{{name}}"),), "s"),
    Panel(
        "Restarts per hour by reason",
        (("sum by (reason) (increase(tfdist_restarts_total[1h])) > 0", "{{reason}}"),),
        note="Empty if no job was restarted.",
    ),
    Panel(
        "Finished jobs per hour",
        (("sum by (result) (increase(tfdist_job_duration_seconds_count[1h]))", "{{result}}"),),
    ),
)
CONTROLLER: Final = (
    Panel("Leaders", (("sum(tfdist_leader)", "leaders"),), kind="stat"),
    Panel("Work queue depth", (("max(tfdist_queue_depth)", "jobs"),)),
    Panel("Queue latency", _quantiles("tfdist_queue_latency_seconds"), "s"),
    Panel("Reconcile duration", _quantiles("tfdist_reconcile_duration_seconds"), "s"),
    Panel(
        "Requests to the API server",
        (("sum by (verb, resource) (rate(tfdist_api_requests_total[5m]))", "{{verb}} {{resource}}"),),
        "reqps",
    ),
    Panel(
        "Failed requests",
        (('sum by (resource, code) (rate(tfdist_api_requests_total{code!~"2.."}[5m])) > 0', "{{resource}} {{code}}"),),
        "reqps",
        note="Empty if no request failed. The controller expects some 404 and 409 responses.",
    ),
    Panel("Event loop lag", (("max(tfdist_event_loop_lag_seconds)", "maximum of a minute"),), "s"),
    Panel("Cached objects", (("max by (resource) (tfdist_cached_objects)", "{{resource}}"),)),
    Panel(
        "Watch restarts per hour",
        (("sum by (resource) (increase(tfdist_watch_restarts_total[1h]))", "{{resource}}"),),
    ),
)


def dashboard(uid: str, title: str, panels: Sequence[Panel], variables: Sequence[str] = ()) -> dict[str, Any]:
    """Return a dashboard with its panels in rows of three; `variables` are the labels of jobs that select the data."""
    return {
        "uid": uid,
        "title": title,
        "tags": ["tfdist"],
        "timezone": "browser",
        "editable": False,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_DATASOURCE, *map(_variable, variables)]},
        "panels": [_panel(number, panel) for number, panel in zip(itertools.count(1), panels, strict=False)],
    }


_DATASOURCE: Final = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(label: str) -> dict[str, Any]:
    return {
        "name": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({{{', '.join(filter(None, (_MEASURED, _CHOSEN[label])))}}}, {label})",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "refresh": 2,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number - 1, _COLUMNS)
    return {
        "id": number,
        "title": panel.title,
        "description": panel.note,
        "type": panel.kind,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }


DASHBOARDS: Final = {
    "jobs": dashboard("tfdist-jobs", "TFDist / Jobs", JOBS, ("namespace", "name")),
    "controller": dashboard("tfdist-controller", "TFDist / Controller", CONTROLLER),
}
