"""The parser of report responses: whole, split anywhere, or anything else."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile_pod import ok

from tfdist.report_response import MAX_HEAD_BYTES, ReportResponse, ResponseError, report_request

LIMIT = 100


def received(*segments: bytes) -> bytes | None:
    """Return the body that the segments make."""
    response = ReportResponse(LIMIT)
    for segment in segments:
        response.feed(segment)
    return response.body


@given(body=st.binary(max_size=LIMIT), cuts=st.lists(st.integers(1, 200), max_size=10))
def test_a_response_split_anywhere_has_the_same_body(body: bytes, cuts: list[int]) -> None:
    whole = ok(body)
    places = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    assert received(*(whole[a:b] for a, b in itertools.pairwise(places))) == body


def test_a_body_without_a_length_lasts_until_the_connection_ends() -> None:
    head = b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\n"
    assert received(head, b"ab") is None
    assert received(head, b"ab", b"c", b"") == b"abc"


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([b"HTTP/1.1 100 Continue\r\n"], "status 100"),
        ([b"HTTP/1.1 302 Found\r\n"], "status 302"),
        ([b"HTTP/2 200\r\n"], "not HTTP/1"),
        ([b"HTTP/1.1 200 OK\r\n", b""], "before the end of the header fields"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"], "transfer-encoding is not accepted"),
        ([b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"], "content-encoding is not accepted"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", b""], "after 2 of 3 bytes"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd"], "more bytes than Content-Length"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n"], "more than 100 bytes of body"),
        ([b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 101], "more than 100 bytes of body"),
        ([b"HTTP/1.1 200 OK\r\nX: ", b"a" * MAX_HEAD_BYTES], "bytes of header fields"),
        ([b"a" * MAX_HEAD_BYTES], "bytes of header fields"),
    ],
)
def test_what_is_not_accepted_is_rejected_as_soon_as_it_is_known(segments: list[bytes], message: str) -> None:
    response = ReportResponse(LIMIT)
    *earlier, last = segments
    for segment in earlier:
        response.feed(segment)
    with pytest.raises(ResponseError, match=message):
        response.feed(last)


@given(segments=st.lists(st.binary(max_size=300), max_size=20))
def test_any_bytes_give_a_body_within_the_limit_or_are_rejected(segments: list[bytes]) -> None:
    try:
        body = received(*segments, b"")
    except ResponseError:
        return
    assert body is None or len(body) <= LIMIT


def test_a_request_names_the_address_and_closes_the_connection() -> None:
    lines = report_request("10.0.0.1", 8790, "/v1/progress").split(b"\r\n")
    assert lines[:2] == [b"GET /v1/progress HTTP/1.1", b"Host: 10.0.0.1:8790"]
    assert {b"Connection: close", b"Accept-Encoding: identity"} <= set(lines)
    assert b"Host: [fd00::1]:8790" in report_request("fd00::1", 8790, "/")
