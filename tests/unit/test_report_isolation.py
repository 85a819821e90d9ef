"""What pods send is read apart from the event loop that renews the Lease and answers probes."""

import asyncio
import threading

import pytest
from support.hostile_pod import HERE, STREAMS, Answer, ok, pod, replica, sends, sends_forever
from support.polling import until

from tfdist import contract
from tfdist.contract import Role
from tfdist.contract_reports import ProgressReport
from tfdist.observed.probe import Unreported
from tfdist.planner.plan import ProbeTarget
from tfdist.report_response import ReportResponse
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.replica_reports import diagnosis as diagnosis_module
from tfdist_operator.replica_reports import report_client as client_module
from tfdist_operator.replica_reports.diagnosis import Diagnosis
from tfdist_operator.replica_reports.report_client import ReportClient

BODY = b'{"role": "worker", "index": 0, "attempt": 0, "phase": "training", "step": 5}'


async def test_a_report_that_is_parsed_for_seconds_does_not_block_the_main_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsing, go_on = threading.Event(), threading.Event()
    parse = ProgressReport.model_validate_json

    def held(body: bytes) -> ProgressReport:
        parsing.set()
        assert go_on.wait(240), "the main loop is blocked"
        return parse(body)

    monkeypatch.setattr(ProgressReport, "model_validate_json", held)
    async with replica(monkeypatch, sends(ok(BODY))) as ip, ReportClient() as client:
        # given a report whose parsing does not end
        request = asyncio.create_task(client.progress(ip))
        await asyncio.to_thread(parsing.wait, 240)
        # then the main loop runs, and the report is there once parsing ends
        assert not request.done()
        go_on.set()
        assert isinstance(await request, ProgressReport)


async def test_single_bytes_are_received_in_a_few_hundred_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "DEADLINE_SECONDS", 0.5)
    segments, feed = [], ReportResponse.feed

    def counted(response: ReportResponse, segment: bytes) -> None:
        segments.append(segment)
        feed(response, segment)

    monkeypatch.setattr(ReportResponse, "feed", counted)
    async with replica(monkeypatch, STREAMS["single bytes"]) as ip, ReportClient() as client:
        assert await client.progress(ip) is Unreported.UNREADABLE
    assert 0 < len(segments) <= 0.5 / 0.005 + 1


@pytest.mark.parametrize("answer", STREAMS.values(), ids=STREAMS)
async def test_a_stream_of_many_pods_keeps_no_other_report_from_being_read(
    monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    async with replica(monkeypatch, answer) as ip, ReportClient() as client:
        hostile = [asyncio.create_task(client.progress(ip)) for _ in range(16)]
        async with pod(sends(ok(BODY))) as port:
            monkeypatch.setattr(contract, "REPORT_PORT", port)
            monkeypatch.setattr(client_module, "DEADLINE_SECONDS", 240.0)
            assert isinstance(await client.progress(HERE), ProgressReport)
        assert {*await asyncio.gather(*hostile)} <= {Unreported.UNREADABLE, Unreported.NO_ANSWER}


async def test_a_client_that_is_closed_cancels_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    endless = sends_forever(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", b"", every=0.01)
    monkeypatch.setattr(client_module, "DEADLINE_SECONDS", 240.0)
    async with replica(monkeypatch, endless, asked) as ip:
        client = ReportClient()
        request = asyncio.create_task(client.progress(ip))
        await until(lambda: bool(asked))
        await client.close()
        await client.close()  # once is enough, twice does no harm
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_diagnoses_of_many_jobs_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given more stalled jobs than are diagnosed in parallel, and no replica that answers, then the others wait."""
    monkeypatch.setattr(client_module, "DEADLINE_SECONDS", 240.0)
    monkeypatch.setattr(diagnosis_module, "DEADLINE_SECONDS", 240.0)
    parallel = diagnosis_module.DIAGNOSES_IN_PARALLEL
    asked: list[bytes] = []
    async with replica(monkeypatch, sends(), asked) as ip:
        diagnosis = Diagnosis(ReportClient())
        for number in range(2 * parallel):
            target = [ProbeTarget(Role.WORKER, 0, ip)]
            diagnosis.start(NamespacedName("team", f"job-{number}"), "one", target, lambda _: None)
        await until(lambda: len(asked) >= parallel)
        for _ in range(100):  # passes of the loop in which another request would have begun
            await asyncio.sleep(0.001)
        assert len(asked) == parallel
        await diagnosis.close()
