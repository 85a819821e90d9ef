"""What the end of a replica means.

The table is the one of the contract between a pod and the controller; the first row that matches wins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tfdist.contract import ExitCode
from tfdist_operator.observed.pod import PodSummary


class Action(StrEnum):
    """What a failure leads to."""

    FAIL = "FailJob"
    RESTART = "Restart"
    RESTART_UNCOUNTED = "RestartWithoutCount"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The class of a failure, and what it leads to."""

    reason: str
    action: Action


DISRUPTION: Final = Verdict("Disruption", Action.RESTART_UNCOUNTED)

_USER_CODES: Final = frozenset(
    {ExitCode.USAGE, ExitCode.DATA_MALFORMED, ExitCode.DATA_MISSING, ExitCode.CONFIGURATION, 126, 127}
)
"""BSD sysexits for the user's mistakes, and the shell's codes for a command that cannot be run."""

_SIGNALLED: Final = frozenset(128 + signal for signal in (6, 7, 8, 9, 11, 15))

_ROWS: Final[tuple[tuple[Callable[[PodSummary], bool], Verdict], ...]] = (
    (lambda pod: pod.disrupted or pod.deleting, DISRUPTION),
    (lambda pod: pod.exit_code == ExitCode.STOPPED_ON_NOTICE, Verdict("Preempted", Action.RESTART_UNCOUNTED)),
    (lambda pod: pod.reason == "OOMKilled", Verdict("OutOfMemory", Action.RESTART)),
    (lambda pod: pod.exit_code in _USER_CODES, Verdict("UserError", Action.FAIL)),
    (lambda pod: pod.exit_code == ExitCode.PEER_LOST, Verdict("PeerLost", Action.RESTART)),
    (lambda pod: pod.exit_code in _SIGNALLED, Verdict("Crash", Action.RESTART)),
    (lambda pod: pod.exit_code is None, DISRUPTION),
)

_OTHERWISE: Final = Verdict("ApplicationError", Action.RESTART)


def verdict(pod: PodSummary) -> Verdict:
    """Return what the end of `pod` means; `pod` has failed, or is being deleted by someone."""
    return next((v for matches, v in _ROWS if matches(pod)), _OTHERWISE)


def root_cause(failed: list[PodSummary]) -> PodSummary:
    """Return the failure that the others followed from: the first in time that is not the loss of a peer.

    Times have a resolution of one second; within it a replica that failed by itself goes before one that was
    told to stop, and the name decides at last, so that every look gives the same answer.
    """
    return min(failed, key=lambda pod: (pod.exit_code == ExitCode.PEER_LOST, pod.finished_at or "9", pod.name))
