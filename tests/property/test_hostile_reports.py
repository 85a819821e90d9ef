"""Any report of a pod is read or dropped, the job is planned, and the API server accepts its status."""

import asyncio
import logging
from typing import Any, cast

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.factories import CHECKPOINT, NOW, Lifecycle, pod
from support.hostile_pod import ok, replica, sends
from support.hostile_reports import BODIES, MESSAGES, REPORTS
from support.report_jobs import jobs_and_pods, poll_once, running_leaders
from support.stored_schema import status_problems

from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist.observed.job_view import ProbeResult, StepCadence, TimestampedReport
from tfdist.observed.probe import Unreported
from tfdist.timestamps import rfc3339
from tfdist_operator.replica_reports.poller import PollRate, ReportPoller
from tfdist_operator.replica_reports.report_client import ReportClient

BOTH = "worker-0:R worker-1:R"
SOME = settings(
    phases=[Phase.generate],
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


def parsed(body: str | bytes) -> ProgressReport | None:
    try:
        return ProgressReport.model_validate_json(body)
    except ValidationError:
        return None


def store(story: Lifecycle) -> None:
    """Assert that the API server stores the status of a story."""
    orjson.dumps(story.status)
    assert status_problems(story.status) == []


@SOME
@given(body=BODIES)
def test_a_report_that_is_read_can_be_sent_and_is_read_with_the_same_result(body: bytes) -> None:
    report = parsed(body)
    if report is not None:
        text = report.to_json()
        assert parsed(text) == report
        assert len(text) < 8 * MAX_REPORT_BYTES


@SOME
@given(body=REPORTS, evaluator=REPORTS, stacks=st.text(max_size=50), behind=st.sampled_from(("worker-1", "", "king-9")))
def test_a_running_job_is_planned_with_any_report_and_can_be_suspended_and_ended(
    body: str, evaluator: str, stacks: str, behind: str
) -> None:
    content, results = parsed(body), parsed(evaluator)
    report = TimestampedReport(content, rfc3339(NOW)) if content else None
    seen: dict[str, Any] = {"report": report, "evaluated": results}
    story = Lifecycle(BOTH, runPolicy={"progressDeadlineSeconds": 60})
    story.reconcile(BOTH, **seen)
    store(story)
    cadence = StepCadence(content.attempt if content else 0, rfc3339(NOW), progress_count=9)
    todo = story.reconcile(BOTH, after=1000, cadence=cadence, **seen)
    store(story)
    story.reconcile(BOTH, cadence=cadence, probe_result=ProbeResult(todo.probe_id, behind, stacks, (behind,)), **seen)
    store(story)
    story.reconcile([pod("worker-0", "F", exit_code=75), pod("worker-1", "F")], **seen)
    store(story)
    story.spec = {"runPolicy": {"suspend": True}}
    story.reconcile(BOTH, **seen)
    store(story)
    assert story.status["phase"] in {"Suspending", "Suspended"}

    late = Lifecycle(BOTH, runPolicy={"activeDeadlineSeconds": 10})
    late.reconcile(BOTH, after=11, **seen)
    store(late)
    assert late.status["phase"] == "Failed"


@SOME
@given(first=MESSAGES, second=MESSAGES, code=st.sampled_from((0, 1, 42, 75, 78, 137)), body=REPORTS)
def test_a_job_whose_replicas_end_with_any_message_is_planned_to_its_end(
    first: str, second: str, code: int, body: str
) -> None:
    content = parsed(body)
    letter = "F" if code else "S"
    ended = [pod(f"worker-{n}", letter, exit_code=code, message=text) for n, text in enumerate((first, second))]
    story = Lifecycle(BOTH, evaluation={"mode": "AfterTraining"}, checkpoint=CHECKPOINT)
    story.reconcile(BOTH, report=TimestampedReport(content, rfc3339(NOW)) if content else None)
    story.reconcile(ended)
    store(story)
    story.reconcile([*ended, pod("evaluation-0", letter, exit_code=code, message=first)])
    store(story)


@SOME
@given(body=REPORTS)
def test_the_poller_accepts_any_report_without_an_exception(body: str, caplog: pytest.LogCaptureFixture) -> None:
    jobs, pods = jobs_and_pods("10.0.0.1")

    class Answers:
        async def progress(self, _: str) -> ProgressReport | Unreported:
            return parsed(body) or Unreported.UNREADABLE

    caplog.clear()
    client, states = cast("ReportClient", Answers()), running_leaders(jobs)
    poller = ReportPoller(jobs, pods, states, client, lambda *_: None, lambda: NOW, PollRate(0, 10))
    for _ in range(2):
        asyncio.run(poll_once(poller, evaluators=True))
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@settings(SOME, max_examples=40)
@given(body=BODIES, head=st.one_of(st.none(), st.binary(max_size=200)))
def test_the_client_reads_any_bytes_as_a_report_or_none(
    body: bytes, head: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read() -> ProgressReport | Unreported:
        response = ok(body) if head is None else head + b"\r\n\r\n" + body

        async def answer(writer: asyncio.StreamWriter) -> None:
            await sends(response)(writer)
            writer.close()

        async with replica(monkeypatch, answer) as ip, ReportClient() as client:
            return await client.progress(ip)

    found = asyncio.run(read())
    if head is None:
        assert found == (parsed(body) or Unreported.UNREADABLE)
