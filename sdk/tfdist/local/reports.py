"""Polls the report ports of replicas, as the controller does."""

import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from tfdist.api.status import TFDistJobStatus
from tfdist.contract import PROGRESS_PATH, STACKS_PATH, replica_name
from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist.local.pods import LocalPod
from tfdist.local.ports import LOCAL_HOST
from tfdist.observed.cadence import with_report
from tfdist.observed.job_view import ProbeResult, RuntimeState, TimestampedReport
from tfdist.observed.probe import Answer, Unreported, probe_result
from tfdist.planner import Plan
from tfdist.printable import printable
from tfdist.render.gang import GangName
from tfdist.report_response import SEGMENT_BYTES, ReportResponse, ResponseError, report_request
from tfdist.restarts.stall import position_of
from tfdist.timestamps import rfc3339

_POLL_SECONDS: Final = 0.5
_PROBE_SECONDS: Final = 5.0
"""Time limits of a request: a poll delays the run; a probe decides which replica hangs, also on a loaded machine."""


def update_reports(runtime: RuntimeState, status: TFDistJobStatus, running: Mapping[str, LocalPod]) -> bool:
    """Store the newest reports of the leaders among the running pods; return whether one has changed."""
    has_changed = False
    for name, pod in running.items():
        content = _progress(pod, _POLL_SECONDS) if name == pod.gang.leader.name else Unreported.NO_ANSWER
        if isinstance(content, Unreported):
            continue
        if pod.gang.name is GangName.EVALUATOR:
            if content.evaluation and content != runtime.evaluated:
                runtime.evaluated, has_changed = content, True
        elif runtime.report is None or runtime.report.content != content:
            now = rfc3339(datetime.now(UTC))
            runtime.cadence = with_report(runtime.cadence, lambda: status, content, now)
            runtime.report, has_changed = TimestampedReport(content, now), True
    return has_changed


def probe(todo: Plan, running: Mapping[str, LocalPod]) -> ProbeResult:
    """Return the answers of the replicas that a plan probes: their progress and stacks."""
    names = [replica_name(target.role, target.index) for target in todo.probes]
    answers = {name: _probe_pod(running[name]) for name in names if name in running}
    return probe_result(todo.probe_id, answers, len(names))


def reports_and_stacks(running: Mapping[str, LocalPod]) -> tuple[dict[str, ProgressReport | None], str]:
    """Return the report of each replica, None if it gives none, and a text with the stacks of all."""
    answers = {name: _report_and_stacks(pod) for name, pod in running.items()}
    text = "\n\n".join(f"== {name}\n{stacks}" for name, (_, stacks) in answers.items())
    reports = {name: None if isinstance(report, Unreported) else report for name, (report, _) in answers.items()}
    return reports, printable(text)


def _probe_pod(pod: LocalPod) -> Answer:
    report, stacks = _report_and_stacks(pod)
    return report if isinstance(report, Unreported) else position_of(report), stacks


def _report_and_stacks(pod: LocalPod) -> tuple[ProgressReport | Unreported, str | Unreported]:
    report = _progress(pod, _PROBE_SECONDS)
    if isinstance(report, Unreported) and report is not Unreported.UNREADABLE:
        return report, report
    stacks = _get(pod, STACKS_PATH, _PROBE_SECONDS)
    return report, stacks.decode(errors="replace") if isinstance(stacks, bytes) else stacks


def _progress(pod: LocalPod, seconds: float) -> ProgressReport | Unreported:
    """Return the progress report of a replica."""
    content = _get(pod, PROGRESS_PATH, seconds)
    try:
        return content if isinstance(content, Unreported) else ProgressReport.model_validate_json(content)
    except ValidationError:
        return Unreported.UNREADABLE


def _get(pod: LocalPod, path: str, seconds: float) -> bytes | Unreported:
    """Return the response of a replica's report port, within a time limit for the whole of it."""
    address, response = (LOCAL_HOST, pod.process.report_port), ReportResponse(MAX_REPORT_BYTES)
    deadline = time.monotonic() + seconds
    try:
        with socket.create_connection(address, timeout=seconds) as connection:
            connection.sendall(report_request(*address, path))
            while response.body is None:
                connection.settimeout(max(deadline - time.monotonic(), 0.001))
                response.feed(connection.recv(SEGMENT_BYTES))
            return response.body
    except ConnectionRefusedError:
        return Unreported.NO_SERVER
    except (OSError, ResponseError):
        return Unreported.UNREADABLE if response.began else Unreported.NO_ANSWER
