"""Polls the report ports of replicas, as the controller does."""

import http.client
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from tfdist.contract import PROGRESS_PATH, STACKS_PATH
from tfdist.contract_model import printable
from tfdist.contract_reports import ProgressReport
from tfdist.local.pods import LocalPod
from tfdist.local.ports import LOCAL_HOST
from tfdist.observed.cadence import with_report
from tfdist.observed.job_view import JobView, ProbeResult, TimestampedReport
from tfdist.planner import Plan
from tfdist.render.gang import GangName
from tfdist.render.names import hostname
from tfdist.timestamps import rfc3339

_POLL_SECONDS: Final = 0.5
_PROBE_SECONDS: Final = 5.0
"""Time limits of a request: a poll delays the run; a probe decides which replica hangs, also on a loaded machine."""
_LARGEST: Final = 1 << 20
_STACKS: Final = 4096
"""Maximum characters of all replicas' stacks."""


def with_reports(view: JobView, running: Mapping[str, LocalPod]) -> JobView:
    """Return the view with the newest reports of the leaders among the running pods; itself if none has changed."""
    for name, pod in running.items():
        leader = pod.gang.leader
        content = _progress(pod, _POLL_SECONDS) if name == hostname(leader.role, leader.index) else None
        if content is None:
            continue
        if pod.gang.name is GangName.EVALUATOR:
            if content.evaluation and content != view.evaluated:
                view = replace(view, evaluated=content)
        elif view.report is None or view.report.content != content:
            now = rfc3339(datetime.now(UTC))
            cadence = with_report(view.cadence, view.status, content, now)
            view = replace(view, report=TimestampedReport(content, now), cadence=cadence)
    return view


def probe(todo: Plan, running: Mapping[str, LocalPod]) -> ProbeResult:
    """Return the answers of the replicas that a plan probes: their progress and stacks."""
    names = [hostname(target.role, target.index) for target in todo.probes]
    pods = {name: running[name] for name in names if name in running}
    reports = {name: _progress(pod, _PROBE_SECONDS) for name, pod in pods.items()}
    silent = tuple(name for name, report in reports.items() if report is None)
    steps = {name: report.step or 0 for name, report in reports.items() if report}
    slowest = min(steps, key=lambda name: steps[name], default="")
    share = _STACKS // max(1, len(pods))
    answers = {name: _get(pods[name], STACKS_PATH, _PROBE_SECONDS).decode(errors="replace") for name in steps}
    stacks = "\n".join(f"{name}: {printable(text.strip()[-share:])}" for name, text in answers.items())
    return ProbeResult(todo.probe_id, silent[0] if silent else slowest, stacks, silent)


def _progress(pod: LocalPod, seconds: float) -> ProgressReport | None:
    """Return the progress report of a replica, or None if it does not answer in time."""
    try:
        return ProgressReport.model_validate_json(_get(pod, PROGRESS_PATH, seconds))
    except ValidationError:
        return None


def _get(pod: LocalPod, path: str, seconds: float) -> bytes:
    """Return the response of a replica's report port; empty if it does not answer in time."""
    connection = http.client.HTTPConnection(LOCAL_HOST, pod.process.report_port, timeout=seconds)
    try:
        connection.request("GET", path)
        return connection.getresponse().read(_LARGEST)
    except (OSError, http.client.HTTPException):
        return b""
    finally:
        connection.close()
