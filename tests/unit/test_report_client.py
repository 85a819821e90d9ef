"""Requests to report ports: pods are untrusted, and any answer is a report, no report, or no answer."""

import asyncio
import gzip
import json
import resource
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.hostile_pod import HERE, STREAMS, Answer, ok, pod, replica, sends, sends_forever
from support.ports import free_ports

from tfdist import contract
from tfdist.contract import Role
from tfdist.contract_reports import MAX_REPORT_BYTES, ProgressReport
from tfdist.observed.job_view import ProbeResult
from tfdist.observed.probe import Unreported
from tfdist.planner.plan import ProbeTarget
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.replica_reports import diagnosis as diagnosis_module
from tfdist_operator.replica_reports import report_client as client_module
from tfdist_operator.replica_reports.diagnosis import Diagnosis
from tfdist_operator.replica_reports.report_client import ReportClient

GOOD: dict[str, Any] = {"role": "worker", "index": 0, "attempt": 0, "phase": "training", "step": 5, "totalSteps": 10}
BODY = json.dumps(GOOD).encode()
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ReportClient]:
    monkeypatch.setattr(client_module, "DEADLINE_SECONDS", 0.5)
    async with ReportClient() as made:
        yield made


def members(number: int) -> bytes:
    """Return the report of a launcher that describes every member, as before reports were summarised."""
    each = {"role": "worker", "alive": True, "phase": "training", "step": 12345}
    return json.dumps(GOOD | {"gang": {"members": [each | {"index": i} for i in range(number)]}}).encode()


@pytest.mark.parametrize("body", [BODY, members(100), members(2000)], ids=["small", "100 members", "2,000 members"])
async def test_a_report_is_read_to_its_end_however_many_segments_it_comes_in(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    response = ok(body)
    parts = [response[:40], response[40:200], response[200:1600], response[1600:]]
    async with replica(monkeypatch, sends(*parts, every=0.05)) as ip:
        found = await client.progress(ip)
    assert isinstance(found, ProgressReport)
    assert found.step == 5


async def test_a_redirect_is_not_followed_and_what_it_leads_to_stays_unread(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    async with pod(sends(ok(b"SECRET OF ANOTHER TENANT")), asked) as victim:
        answer = (
            f"HTTP/1.1 302 Found\r\nLocation: http://{HERE}:{victim}/v1/stacks\r\nContent-Length: 0\r\n\r\n".encode()
        )
        async with replica(monkeypatch, sends(answer)) as ip:
            assert await client.progress(ip) is Unreported.UNREADABLE
            result = await Diagnosis(client).find_suspect("why", [ProbeTarget(Role.WORKER, 0, ip)])
    assert (asked, "SECRET" in result.stacks, result.unresponsive) == ([], False, ())


HUGE = 10**400
UNREADABLE: dict[str, Answer] = {
    "another status": sends(b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY),
    "not HTTP": sends(b"\x00\x01 rubbish \r\n\r\n\r\n"),
    "not JSON": sends(ok(b"<html>")),
    "not UTF-8": sends(ok(b'{"role": "\xff\xfe"}')),
    "a list": sends(ok(b"[]")),
    "deep JSON": sends(ok(b"[" * 100_000)),
    "no phase": sends(ok(b'{"role": "worker", "index": 0, "attempt": 0}')),
    "attempt out of bounds": sends(ok(json.dumps(GOOD | {"attempt": HUGE}).encode())),
    "attempt negative": sends(ok(json.dumps(GOOD | {"attempt": -1}).encode())),
    "larger than the limit": sends(ok(BODY + b" " * MAX_REPORT_BYTES)),
    "gzip": sends(ok(gzip.compress(BODY), "Content-Encoding: gzip")),
    "a gzip bomb": sends(ok(gzip.compress(b"0" * 50_000_000), "Content-Encoding: gzip")),
    "an interim response first": sends(b"HTTP/1.1 100 Continue\r\n\r\n" + ok(BODY)),
    "chunks": sends(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    "more than announced": sends(ok(BODY) + ok(BODY)),
    "two lengths": sends(ok(BODY, "Content-Length: 5")),
    "a negative length": sends(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n" + BODY),
    "a length of 5,000 digits": sends(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"),
    "a body that never comes": sends(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
    "a byte at a time": sends_forever(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" ", every=0.05),
} | STREAMS


@pytest.mark.parametrize("answer", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_answer_that_is_no_report_is_unreadable_and_read_no_further_than_the_limits(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    async with replica(monkeypatch, answer) as ip:
        assert await client.progress(ip) is Unreported.UNREADABLE
        result = await Diagnosis(client).find_suspect("why", [ProbeTarget(Role.WORKER, 0, ip)])
    assert (result.unresponsive, result.behind) == ((), ""), "only a replica that does not answer is to blame"
    assert len(result.stacks) <= 4096
    assert time.monotonic() - begun < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000, "KiB"


async def test_a_replica_without_a_report_server_is_not_to_blame(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a program of which only the chief reports, when the gang stalls, then no other replica is named."""
    monkeypatch.setattr(contract, "REPORT_PORT", free_ports(1)[0])
    assert await client.progress(HERE) is Unreported.NO_SERVER
    result = await Diagnosis(client).find_suspect("why", [ProbeTarget(Role.WORKER, 0, HERE)])
    assert result == ProbeResult("why", "", "worker-0: has no report server")


async def test_a_replica_that_never_answers_gives_no_answer(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replica(monkeypatch, sends()) as ip:
        assert await client.progress(ip) is Unreported.NO_ANSWER
        result = await Diagnosis(client).find_suspect("why", [ProbeTarget(Role.WORKER, 0, ip)])
    assert result == ProbeResult("why", "worker-0", "worker-0: does not answer", ("worker-0",))


async def test_a_request_asks_for_no_compression_and_brings_no_cookie_of_another_pod(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []
    async with replica(monkeypatch, sends(ok(BODY, "Set-Cookie: a=b")), asked) as ip:
        await client.progress(ip)
        await client.progress(ip)
    assert all(b"Accept-Encoding: identity" in head and b"Cookie" not in head for head in asked)


async def test_stacks_lose_what_would_act_on_a_terminal(client: ReportClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async with replica(monkeypatch, sends(ok(b"\x1b[2Jline one\nline two\x00"))) as ip:
        result = await Diagnosis(client).find_suspect("why", [ProbeTarget(Role.WORKER, 0, ip)])
    assert "line one\nline two" in result.stacks
    assert not {"\x1b", "\x00"} & set(result.stacks)


async def test_the_diagnosis_of_one_jobs_silent_replicas_delays_no_other_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Given a job with 400 replicas of which none answers, then a replica of another job is read meanwhile."""
    monkeypatch.setattr(client_module, "DEADLINE_SECONDS", 300.0)
    monkeypatch.setattr(diagnosis_module, "DEADLINE_SECONDS", 300.0)
    found: list[ProbeResult] = []
    asked: asyncio.Queue[None] = asyncio.Queue()
    answers = False

    async def answer(writer: asyncio.StreamWriter) -> None:
        asked.put_nowait(None)
        if answers:
            await sends(ok(BODY))(writer)

    async with replica(monkeypatch, answer) as ip, ReportClient() as client:
        diagnosis = Diagnosis(client)
        silent = [ProbeTarget(Role.WORKER, number, ip) for number in range(400)]
        diagnosis.start(NamespacedName("team", "stalled"), "one", silent, found.append)
        diagnosis.start(NamespacedName("team", "stalled"), "one", silent, found.append)  # in progress already
        for _ in range(diagnosis_module.REQUESTS_PER_JOB):
            await asyncio.wait_for(asked.get(), 60)
        answers = True
        assert isinstance(await asyncio.wait_for(client.progress(ip), 60), ProgressReport)
        assert found == [], "the diagnosis was still in progress"
        await diagnosis.close()
    assert found == []


async def test_a_diagnosis_reports_once_and_can_be_made_again(
    client: ReportClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: asyncio.Queue[ProbeResult] = asyncio.Queue()
    async with replica(monkeypatch, sends(ok(BODY))) as ip:
        diagnosis = Diagnosis(client)
        for about in ("one", "two"):
            diagnosis.start(NamespacedName("team", "a"), about, [ProbeTarget(Role.WORKER, 0, ip)], found.put_nowait)
            assert (await asyncio.wait_for(found.get(), 30)).probe_id == about
    assert found.empty()
