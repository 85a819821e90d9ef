"""Mutual authentication of two launchers: both prove that they have the attempt's token, and neither sends it.

```
leader                                    member
  | -- Challenge(protocol, nonce a) -->     |
  |     <-- Hello(..., nonce b, proof) --   |    proof: HMAC-SHA-256 with the token, over a, b and the member's identity
  | -- Welcome(proof) -->                   |    proof: the same over b and a
```

The token is derived from the job's key (`attempt_token`), which its pods get from a Secret.

A peer that does not complete the handshake within `HANDSHAKE_TIMEOUT_SECONDS`, or sends a line of more than
`MAX_HANDSHAKE_BYTES`, is disconnected. Later messages are not signed: the network between the pods of a job is trusted
not to change them.
"""

import asyncio
import hmac
import secrets
from typing import Final

from tfdist_launch.messages import PROTOCOL, Challenge, Hello, LineReader, Message, Welcome, decode, encode

HANDSHAKE_TIMEOUT_SECONDS: Final = 5.0
MAX_HANDSHAKE_BYTES: Final = 1 << 12


class HandshakeError(Exception):
    """The other side is not a launcher of this gang, or does not prove it."""


class ProtocolMismatchError(HandshakeError):
    """The other side has another version of the protocol."""

    def __init__(self, peer: str, version: int) -> None:
        super().__init__(
            f"{peer} has version {version} of the launcher protocol and this launcher version {PROTOCOL}: "
            "use images of one TFDist version for all replicas"
        )


def attempt_token(key: str, gang: str, attempt: int, job: str) -> str:
    """Return the token of an attempt of a gang, given the key and the UID of its job."""
    return _sign(key, "token", gang, str(attempt), job)


async def authenticate_member(lines: LineReader, writer: asyncio.StreamWriter, token: str) -> Hello:
    """Return the `Hello` of a member that has the token.

    Raises:
        HandshakeError: the member does not have it.
    """
    # A new one for each connection, so that a recorded proof cannot be sent again.
    nonce = secrets.token_hex(16)
    writer.write(encode(Challenge(nonce=nonce)))
    hello = await _receive(lines)
    if not isinstance(hello, Hello):
        raise HandshakeError(f"its first message is {hello.kind}, not hello")
    # Before the proof: another version may sign other fields, and its failed proof would be reported as a wrong token.
    if hello.protocol != PROTOCOL:
        raise ProtocolMismatchError(f"the launcher of rank {hello.rank}", hello.protocol)
    if not _is_equal(hello.proof, _member_proof(token, nonce, hello)):
        raise HandshakeError("it does not have the token of this attempt")
    writer.write(encode(Welcome(proof=_leader_proof(token, hello.nonce, nonce))))
    return hello


async def authenticate_to_leader(lines: LineReader, writer: asyncio.StreamWriter, hello: Hello, token: str) -> None:
    """Send `hello`, and return when the leader has proved that it has the token too.

    Raises:
        HandshakeError: the leader does not have it.
    """
    challenge = await _receive(lines)
    if not isinstance(challenge, Challenge):
        raise HandshakeError(f"its first message is {challenge.kind}, not challenge")
    # As in the leader: the version first, which explains a proof that cannot match.
    if challenge.protocol != PROTOCOL:
        raise ProtocolMismatchError("the launcher of member 0", challenge.protocol)
    signed_hello = hello.model_copy(update={"nonce": secrets.token_hex(16)})
    proof = _member_proof(token, challenge.nonce, signed_hello)
    writer.write(encode(signed_hello.model_copy(update={"proof": proof})))
    welcome = await _receive(lines)
    expected = _leader_proof(token, signed_hello.nonce, challenge.nonce)
    # The member checks the leader too: a pod at an old address of the leader must not start or stop processes.
    if not isinstance(welcome, Welcome) or not _is_equal(welcome.proof, expected):
        raise HandshakeError("the server at this address does not have the token of this attempt")


async def _receive(lines: LineReader) -> Message:
    try:
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_SECONDS):
            return decode(await lines.next(MAX_HANDSHAKE_BYTES))
    except TimeoutError:
        raise HandshakeError(f"no message arrived within {HANDSHAKE_TIMEOUT_SECONDS:.0f} s") from None
    except EOFError:
        raise HandshakeError("it closed the connection before the end of the handshake") from None
    except (OSError, ValueError) as error:
        raise HandshakeError(f"it sent an invalid message: {str(error)[:100]}") from None


def _member_proof(token: str, challenge: str, hello: Hello) -> str:
    """Return the proof of a member, which covers every field that the leader's decisions depend on."""
    identity = (hello.job, hello.rank, hello.attempt, hello.started_at, hello.highest_round, hello.wait_seconds)
    return _sign(token, "member", challenge, hello.nonce, *map(repr, identity))


def _leader_proof(token: str, response: str, challenge: str) -> str:
    return _sign(token, "leader", response, challenge)


def _is_equal(proof: str, expected: str) -> bool:
    # In constant time, and for any text that a peer may send.
    return hmac.compare_digest(proof.encode(errors="replace"), expected.encode())


def _sign(token: str, *parts: str) -> str:
    return hmac.digest(token.encode(), "\n".join(parts).encode(errors="replace"), "sha256").hex()
