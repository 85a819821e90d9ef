"""Authentication between launchers: only a peer with the token of the attempt is accepted, whatever others send."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.handshakes import HELLO, TOKEN, following, leading, speaking
from support.polling import WAIT_SECONDS, until

from tfdist_launch import connection, handshake
from tfdist_launch.handshake import (
    MAX_HANDSHAKE_BYTES,
    HandshakeError,
    attempt_token,
    authenticate_member,
)
from tfdist_launch.messages import (
    PROTOCOL,
    Challenge,
    GangFailed,
    LauncherRejected,
    LineReader,
    Message,
    Terminating,
    Welcome,
    decode,
    encode,
)

GARBAGE: Final = {
    "bytes that are no text": b"\xff\xfe\x00\n",
    "text that is no JSON": b"GET / HTTP/1.1\r\n\r\n",
    "JSON that is no message": b"[1, 2]\n",
    "a message of a member that was not admitted": encode(Terminating()),
    "an end of the gang": encode(GangFailed(exit_code=0, termination="")),
    "a greeting without a proof": encode(HELLO),
    "a greeting with a made-up proof": encode(HELLO.model_copy(update={"proof": "0" * 64})),
    "a greeting of another version": encode(HELLO.model_copy(update={"protocol": PROTOCOL - 1})),
    "a line without an end": b"x" * (MAX_HANDSHAKE_BYTES * 4),
    "a greeting that is too long": b'{"kind":"hello","job":"' + b"x" * MAX_HANDSHAKE_BYTES + b'"}\n',
    "JSON of many levels": b"[" * 4000 + b"\n",
}


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            await test()

    asyncio.run(limited())


def test_a_member_is_accepted_and_both_receive_messages() -> None:
    async def test() -> None:
        async with leading() as (port, heard), following(port) as (messages, admitted):
            await admitted.wait()
            await until(lambda: bool(heard.hellos))
            assert heard.hellos[0].precedence == HELLO.precedence
            assert heard.leading is not None
            heard.leading.send(heard.links[0], LauncherRejected(reason="enough"))
            await until(lambda: LauncherRejected(reason="enough") in messages)

    run(test)


KEY: Final = "0a" * 32
MINE: Final = attempt_token(KEY, "training", 2, HELLO.job)


def test_launchers_that_derive_their_token_from_one_key_and_attempt_accept_each_other() -> None:
    async def test() -> None:
        theirs = attempt_token(KEY, "training", 2, HELLO.job)
        async with leading(MINE) as (port, heard), following(port, theirs) as (_, admitted):
            await admitted.wait()
            await until(lambda: bool(heard.hellos))

    run(test)


@pytest.mark.parametrize(
    "token",
    [
        attempt_token(KEY, "training", 1, HELLO.job),
        attempt_token(KEY, "evaluation", 2, HELLO.job),
        attempt_token(KEY, "training", 2, "another job"),
        attempt_token("0b" * 32, "training", 2, HELLO.job),
        KEY,
    ],
    ids=["another attempt", "another gang", "another job", "another key", "the key itself"],
)
def test_a_launcher_with_a_token_of_another_origin_is_not_accepted(
    token: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def test() -> None:
        async with leading(MINE) as (port, heard), following(port, token) as (_, admitted):
            await until(lambda: "connection-rejected" in capsys.readouterr().out)
            assert (heard.hellos, admitted.is_set()) == ([], False)

    run(test)


def test_a_member_without_the_token_is_ignored(capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> None:
        async with leading() as (port, heard), following(port, "another"):
            await until(lambda: "connection-rejected" in capsys.readouterr().out)
            assert (heard.hellos, heard.messages, heard.losses) == ([], [], 0)

    run(test)


@pytest.mark.parametrize("sent", GARBAGE.values(), ids=GARBAGE)
def test_an_unauthenticated_client_is_disconnected_without_effect(sent: bytes) -> None:
    async def test() -> None:
        async with leading() as (port, heard):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(OSError):
                writer.write(sent)
                await reader.read(-1)  # until the leader closes
            writer.close()
            async with following(port) as (_, admitted):
                await admitted.wait()
            await until(lambda: heard.losses == 1)
            assert (len(heard.hellos), heard.messages) == (1, [])

    run(test)


@settings(max_examples=300)
@given(sent=st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: b + b"\n"), token=st.sampled_from([TOKEN]))
def test_random_bytes_never_authenticate_nor_raise_another_error(sent: bytes, token: str) -> None:
    class Writer:
        def write(self, _: bytes) -> None: ...

    async def test() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(sent)
        reader.feed_eof()
        writer: Any = Writer()
        with pytest.raises(HandshakeError):
            await authenticate_member(LineReader(reader), writer, token)

    asyncio.run(test())


def test_a_client_that_sends_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT_SECONDS", 0.1)

    async def test() -> None:
        async with leading() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(OSError):
                assert isinstance(decode((await reader.read(-1)).strip()), Challenge), "closed without another message"
            writer.close()

    run(test)


def test_a_client_that_sends_byte_by_byte_gets_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT_SECONDS", 0.3)

    async def test() -> None:
        async with leading() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            closed = asyncio.create_task(reader.read(-1))
            with contextlib.suppress(OSError):
                while not closed.done():
                    writer.write(b"x")
                    await asyncio.sleep(0.05)
            with contextlib.suppress(OSError):
                await closed
            writer.close()

    run(test)


def test_a_member_connects_while_many_silent_clients_are_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "MAX_PENDING", 8)

    async def test() -> None:
        async with leading() as (port, heard):
            crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(50)]
            async with following(port) as (_, admitted):
                await admitted.wait()
            assert heard.leading is not None
            assert len(heard.leading._pending) <= 9
            for _, writer in crowd:
                writer.transport.abort()

    run(test)


def test_a_leader_that_exits_does_not_wait_for_unauthenticated_clients() -> None:
    async def test() -> None:
        async with leading() as (port, heard):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            assert heard.leading is not None
            await asyncio.wait_for(heard.leading.wait_until_empty(600), 30)
            writer.transport.abort()

    run(test)


def test_a_replayed_hello_is_rejected() -> None:
    async def test() -> None:
        async with speaking(Challenge(nonce="a" * 32)) as (port, brought), following(port):
            await until(lambda: bool(brought) and b"\n" in brought[0])
        overheard = bytes(brought[0])
        assert TOKEN.encode() not in overheard
        async with leading() as (port, heard):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(overheard)
            with contextlib.suppress(OSError):
                await reader.read(-1)
            assert heard.hellos == []
            writer.close()

    run(test)


@pytest.mark.parametrize(
    "sent",
    [
        [GangFailed(exit_code=0, termination="")],
        [Challenge(nonce="a"), Welcome(proof="0" * 64), GangFailed(exit_code=0, termination="")],
        [Challenge(nonce="a"), GangFailed(exit_code=0, termination="")],
    ],
    ids=["no challenge", "a made-up proof", "no proof"],
)
def test_a_member_ignores_a_leader_without_the_token_and_connects_again(
    sent: list[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HANDSHAKE_RETRY_SECONDS", 0.01)

    async def test() -> None:
        async with speaking(*sent) as (port, brought), following(port) as (messages, admitted):
            await until(lambda: len(brought) >= 3)
            assert (messages, admitted.is_set()) == ([], False)

    run(test)


@pytest.mark.parametrize("theirs", [PROTOCOL + 1, PROTOCOL - 1], ids=["a newer leader", "an older one"])
def test_a_leader_of_another_version_is_an_error_that_names_both(theirs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROTOCOL_MISMATCH_SECONDS", 0.0)

    async def test() -> None:
        errors: list[str] = []
        async with (
            speaking(Challenge(protocol=theirs, nonce="a")) as (port, _),
            following(port, on_protocol_mismatch=errors.append),
        ):
            await until(lambda: bool(errors))
        assert errors[0].startswith(f"the launcher of member 0 has version {theirs} of the launcher protocol and ")
        assert f"this launcher version {PROTOCOL}: use images of one TFDist version for all replicas" in errors[0]

    run(test)


def test_a_member_of_another_version_is_rejected_with_both_versions() -> None:
    async def test() -> None:
        async with leading() as (port, heard):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(encode(HELLO.model_copy(update={"protocol": PROTOCOL - 1})))
            answers = [decode(line) for line in (await reader.read(-1)).splitlines()]
            assert isinstance(answers[-1], LauncherRejected)
            assert f"the launcher of rank 1 has version {PROTOCOL - 1}" in answers[-1].reason
            assert f"this launcher version {PROTOCOL}" in answers[-1].reason
            assert heard.hellos == []
            writer.close()

    run(test)
