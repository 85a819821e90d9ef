"""What the end of a replica means.

The job's own rules go first, then the table of the contract between a pod and the controller; the first row that
matches wins. The documentation's table is made from the one here. The controller judges pods by it, and the launcher
the processes of a round.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from pydantic import ValidationError
from pydantic_core import SchemaValidator, core_schema

from tfdist.api.policies import FailurePolicy, FailureRule
from tfdist.contract import ExitCode, Role


class Ended(Protocol):
    """A replica that has ended, or is being taken away, as far as a verdict looks at it."""

    @property
    def name(self) -> str:
        """What tells it from all others."""

    @property
    def role(self) -> Role:
        """Its role."""

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None where it is gone without one."""

    @property
    def reason(self) -> str:
        """Why it ended, in Kubernetes' words; "" where those are not known."""

    @property
    def message(self) -> str:
        """Its last words."""

    @property
    def conditions(self) -> Sequence[str]:
        """`Type=Status` of every condition of its pod."""

    @property
    def disrupted(self) -> bool:
        """Whether the cluster took it away."""

    @property
    def deleting(self) -> bool:
        """Whether somebody deleted it."""

    @property
    def lost_at(self) -> str:
        """When its loss began, RFC 3339; "" where that is not known."""


_E = TypeVar("_E", bound=Ended)


class Action(StrEnum):
    """What a failure leads to."""

    FAIL = "FailJob"
    RESTART = "Restart"
    RESTART_UNCOUNTED = "RestartWithoutCount"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a failure, and what it leads to."""

    reason: str
    action: Action


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table: what is seen, in words and as a test, and what it means."""

    seen: str
    matches: Callable[[Ended], bool]
    verdict: Verdict


DISRUPTION: Final = Verdict("Disruption", Action.RESTART_UNCOUNTED)
STALLED: Final = Verdict("Stalled", Action.RESTART)
APPLICATION_ERROR: Final = "ApplicationError"
PEER_LOST: Final = "PeerLost"
REPEATED_ERROR: Final = "RepeatedError"
"""The same `APPLICATION_ERROR` twice running, with no checkpoint between: a third start would end the same."""
LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
SECONDARY: Final = "Secondary"
"""A failure that followed from another."""

_USER_CODES: Final = (
    ExitCode.USAGE,
    ExitCode.DATA_MALFORMED,
    ExitCode.DATA_MISSING,
    ExitCode.CONFIGURATION,
    126,
    127,
)
"""BSD sysexits for the user's mistakes, and the shell's codes for a command that cannot be run."""

_SIGNALLED: Final = tuple(128 + signal for signal in (6, 7, 8, 9, 11, 15))


def _codes(codes: Iterable[int]) -> str:
    return "exit code " + ", ".join(str(int(code)) for code in codes)


TABLE: Final = (
    Row(
        "the pod was evicted, preempted or deleted, or its node was lost",
        lambda pod: pod.disrupted or pod.deleting,
        DISRUPTION,
    ),
    Row(
        f"{_codes([ExitCode.STOPPED_ON_NOTICE])}: it saved a checkpoint when it was told to stop",
        lambda pod: pod.exit_code == ExitCode.STOPPED_ON_NOTICE,
        Verdict("Preempted", Action.RESTART_UNCOUNTED),
    ),
    Row(
        "the kernel or kubelet killed it for want of memory (`OOMKilled`)",
        lambda pod: pod.reason == "OOMKilled",
        Verdict("OutOfMemory", Action.RESTART),
    ),
    Row(
        f"{_codes(_USER_CODES)}: a mistake that the same start repeats",
        lambda pod: pod.exit_code in _USER_CODES,
        Verdict("UserError", Action.FAIL),
    ),
    Row(
        f"{_codes([ExitCode.PEER_LOST])}: it lost a peer, and nobody else failed",
        lambda pod: pod.exit_code == ExitCode.PEER_LOST,
        Verdict(PEER_LOST, Action.RESTART),
    ),
    Row(
        f"{_codes(_SIGNALLED)}: a signal ended it",
        lambda pod: pod.exit_code in _SIGNALLED,
        Verdict("Crash", Action.RESTART),
    ),
    Row("it is gone without an exit code", lambda pod: pod.exit_code is None, DISRUPTION),
    Row("any other exit code", lambda _: True, Verdict(APPLICATION_ERROR, Action.RESTART)),
)
"""What is seen of a replica's end, and what it means."""


def verdict(pod: Ended, policy: FailurePolicy | None = None) -> Verdict:
    """Return what the end of `pod` means; `pod` has failed, or is being deleted by someone.

    A rule of the job's own changes what is done and keeps what it is called; where it fails the job, the reason is
    `FailurePolicy`.
    """
    by_table = next(row.verdict for row in TABLE if row.matches(pod))
    rule = next((r for r in (policy.rules if policy else ()) if rule_matches(r, pod)), None)
    if rule is None:
        return by_table
    action = Action(rule.action)
    return Verdict("FailurePolicy" if action is Action.FAIL else by_table.reason, action)


def rule_matches(rule: FailureRule, pod: Ended) -> bool:
    """Return whether a failure meets all that a rule names."""
    if rule.roles is not None and pod.role not in rule.roles:
        return False
    codes = rule.on_exit_codes
    if codes is not None and (pod.exit_code is None or (pod.exit_code in codes.values) != (codes.operator == "In")):
        return False
    wanted = rule.on_pod_conditions
    if wanted is not None and not any(f"{c.type}={c.status}" in pod.conditions for c in wanted):
        return False
    return rule.on_message_pattern is None or _found(rule.on_message_pattern, pod.message)


def root_cause(failed: Sequence[_E], policy: FailurePolicy | None = None) -> _E:
    """Return the failure that the others followed from: the first in time that is not the loss of a peer.

    The time of a pod that is deleted is that of the request, for its end and that of the others follow from it.

    Times have a resolution of one second; within it the one with the gravest verdict goes first, and the name
    decides at last, so that every look gives the same answer.
    """

    def rank(pod: Ended) -> tuple[bool, str, int, str]:
        gravity = _GRAVITY[verdict(pod, policy).action]
        return (pod.exit_code == ExitCode.PEER_LOST, pod.lost_at or "9", gravity, pod.name)

    return min(failed, key=rank)


_GRAVITY: Final = {Action.FAIL: 0, Action.RESTART: 1, Action.RESTART_UNCOUNTED: 2, Action.IGNORE: 3}


@lru_cache(maxsize=256)
def _searcher(pattern: str) -> SchemaValidator:
    return SchemaValidator(core_schema.str_schema(pattern=pattern))


def _found(pattern: str, text: str) -> bool:
    """Return whether a pattern is found in a text, in time linear in both: Rust's `regex`, which pydantic has."""
    try:
        _searcher(pattern).validate_python(text)
    except ValidationError:
        return False
    return True
