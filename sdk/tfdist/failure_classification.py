"""Classifies the failure of a replica: its reason, and the action that follows.

The rules of the job's `failurePolicy` are evaluated first, then `RULES`; the first match wins. The controller
classifies pods, the launcher the training processes of a round. The table of docs/failures.md is generated from
`RULES`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeVar

from tfdist import regex
from tfdist.api.policies import FailurePolicy, FailureRule
from tfdist.contract import ExitCode, Role
from tfdist.failure_text import may_be_lost_connection
from tfdist.start_error import exec_error
from tfdist.termination import termination_message, termination_summary


class TerminatedReplica(Protocol):
    """A replica that has terminated or is being deleted: what its classification reads."""

    @property
    def name(self) -> str:
        """Unique name of the replica."""

    @property
    def role(self) -> Role:
        """Role of the replica."""

    @property
    def exit_code(self) -> int | None:
        """Exit code; None if the replica is gone without one."""

    @property
    def reason(self) -> str:
        """`reason` of the terminated container state; "" if it is unknown."""

    @property
    def message(self) -> str:
        """Termination message."""

    @property
    def conditions(self) -> Sequence[str]:
        """Conditions of the pod, each as `Type=Status`."""

    @property
    def disrupted(self) -> bool:
        """Whether the cluster evicted or preempted the pod, or lost its node."""

    @property
    def deleting(self) -> bool:
        """Whether the deletion of the pod has been requested."""

    @property
    def lost_at(self) -> str:
        """Time of the failure or of the request for deletion, RFC 3339; "" if it is unknown."""


_ReplicaT = TypeVar("_ReplicaT", bound=TerminatedReplica)


class Action(StrEnum):
    """Action that follows a failure, most severe first; the values of `failurePolicy.rules[].action`."""

    FAIL = "FailJob"
    AVOID_NODE = "AvoidNode"
    RESTART = "Restart"
    RESTART_UNCOUNTED = "RestartWithoutCount"
    IGNORE = "Ignore"


@dataclass(frozen=True, slots=True)
class Classification:
    """Reason of a failure and the action that follows it."""

    reason: str
    action: Action


@dataclass(frozen=True, slots=True)
class ExitRule:
    """One rule: the criterion, as text for the documentation and as a predicate, and the resulting classification."""

    criterion: str
    matches: Callable[[TerminatedReplica], bool]
    classification: Classification


DISRUPTION: Final = Classification("Disruption", Action.RESTART_UNCOUNTED)
PREEMPTED: Final = Classification("Preempted", Action.RESTART_UNCOUNTED)
STALLED: Final = Classification("Stalled", Action.RESTART)
DEVICE_MISSING: Final = Classification("DeviceMissing", Action.AVOID_NODE)
OUT_OF_MEMORY: Final = "OutOfMemory"
STORAGE_LIMIT_EXCEEDED: Final = "StorageLimitExceeded"
EVICTED: Final = "Evicted"
"""Reason of a pod that the kubelet evicted; it deletes the containers, and with them their logs."""
OOM_KILLED: Final = "OOMKilled"
"""Reason of a container whose process 1 was killed by the kernel because it was out of memory."""
APPLICATION_ERROR: Final = "ApplicationError"
USER_ERROR: Final = "UserError"
PEER_LOST: Final = "PeerLost"
REPEATED_ERROR: Final = "RepeatedError"
"""The same error in two consecutive attempts without a new checkpoint: a third would fail alike."""
REPEATABLE: Final = frozenset({APPLICATION_ERROR, DEVICE_MISSING.reason})
"""Reasons of failures that may be a `REPEATED_ERROR`. With `Action.AVOID_NODE`, only on the same node."""
LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
LIMIT_MESSAGE: Final = "runPolicy.backoffLimit of {limit} exceeded (counted restarts since the last checkpoint)"
"""Message of a gang that has exhausted `backoffLimit`; it is not appended to a message that has it already."""
SECONDARY: Final = "Secondary"
"""A failure caused by another one."""

_ABORTED: Final = 128 + 6
_TERMINATED: Final = 128 + 15
_OWN_CODES: Final = frozenset(ExitCode)
_OWN_STORAGE_LIMIT: Final = re.compile(r"exceed(?:s|ed) (?:its local ephemeral storage|the total|the) limit")
_END_UNKNOWN: Final = frozenset({"Unknown", "ContainerStatusUnknown"})
"""Reasons of a container that ended while its runtime or kubelet did not run: containerd and the kubelet then make up
the exit codes 255 and 137."""

_USER_CODES: Final = (
    ExitCode.USAGE,
    ExitCode.DATA_MALFORMED,
    ExitCode.DATA_MISSING,
    ExitCode.CONFIGURATION,
    126,
    127,
)
"""Codes of BSD's sysexits.h for errors of the user, and the shell's codes for a command that cannot be run."""

_SIGNALLED: Final = tuple(128 + signal for signal in (6, 7, 8, 9, 11, 15))


def _codes(codes: Iterable[int]) -> str:
    return "exit code " + ", ".join(str(int(code)) for code in codes)


RULES: Final = (
    ExitRule(
        f"{_codes([ExitCode.PREEMPTED])}: it saved a checkpoint after SIGTERM",
        lambda pod: pod.exit_code == ExitCode.PREEMPTED,
        PREEMPTED,
    ),
    ExitRule(
        f"{_codes([_TERMINATED])}, and the pod was evicted, preempted or deleted: it ended by SIGTERM",
        lambda pod: pod.exit_code == _TERMINATED and (pod.disrupted or pod.deleting),
        PREEMPTED,
    ),
    ExitRule(
        "the kubelet evicted it because it used more ephemeral storage than its own limit (`Evicted`)",
        lambda pod: exceeded_own_storage(pod.reason, pod.message),
        Classification(STORAGE_LIMIT_EXCEEDED, Action.RESTART),
    ),
    ExitRule(
        "the pod was evicted, preempted or deleted, or its node was lost",
        lambda pod: pod.disrupted or pod.deleting,
        DISRUPTION,
    ),
    ExitRule(
        "its node stopped, and how the container ended is unknown (`Unknown`, `ContainerStatusUnknown`)",
        lambda pod: pod.reason in _END_UNKNOWN,
        DISRUPTION,
    ),
    ExitRule(
        "the kernel or kubelet killed it, or one of its processes, because memory ran out (`OOMKilled`)",
        lambda pod: pod.reason == OOM_KILLED or _reports_out_of_memory(pod.message),
        Classification(OUT_OF_MEMORY, Action.RESTART),
    ),
    ExitRule(
        "its command cannot be executed: `exec: ...` in the message of `StartError` or `ContainerCannotRun`",
        lambda pod: exec_error(pod.reason, pod.message) is not None,
        Classification(USER_ERROR, Action.FAIL),
    ),
    ExitRule(
        f"{_codes(_USER_CODES)}: an error of the user that every restart would repeat",
        lambda pod: pod.exit_code in _USER_CODES,
        Classification(USER_ERROR, Action.FAIL),
    ),
    ExitRule(
        f"{_codes([ExitCode.DEVICE_MISSING])}: a GPU of its container is missing or faulty",
        lambda pod: pod.exit_code == ExitCode.DEVICE_MISSING,
        DEVICE_MISSING,
    ),
    ExitRule(
        f"{_codes([ExitCode.PEER_LOST])}: it lost a peer, and no other replica failed",
        lambda pod: pod.exit_code == ExitCode.PEER_LOST,
        Classification(PEER_LOST, Action.RESTART),
    ),
    ExitRule(
        f"{_codes(_SIGNALLED)}: terminated by a signal",
        lambda pod: pod.exit_code in _SIGNALLED,
        Classification("Crash", Action.RESTART),
    ),
    ExitRule("the pod is gone without an exit code", lambda pod: pod.exit_code is None, DISRUPTION),
    ExitRule("any other exit code", lambda _: True, Classification(APPLICATION_ERROR, Action.RESTART)),
)
"""Default classification; the first rule that matches applies."""


FAILURE_POLICY: Final = "FailurePolicy"
"""A rule of `failurePolicy` failed the job."""
OTHER: Final = "Other"
"""Replaces a reported reason that is not in `REASONS`."""

REASONS: Final = frozenset(rule.classification.reason for rule in RULES) | {
    STALLED.reason,
    SECONDARY,
    REPEATED_ERROR,
    LIMIT_EXCEEDED,
    FAILURE_POLICY,
}
"""Every reason that a launcher may report for a failure or for the end of a gang."""


def known_reason(reason: str) -> str:
    """Return a reported reason, or `Other` if it is unknown: conditions, events and metrics use a fixed set."""
    return reason if reason in REASONS else OTHER


def classify(pod: TerminatedReplica, policy: FailurePolicy | None = None) -> Classification:
    """Return the classification of `pod`, which has failed or is being deleted.

    A matching rule of `policy` replaces the action and keeps the reason; if it fails the job, the reason is
    `FailurePolicy`.
    """
    default = next(rule.classification for rule in RULES if rule.matches(pod))
    rule = next((r for r in (policy.rules if policy else ()) if rule_matches(r, pod)), None)
    if rule is None:
        return default
    action = Action(rule.action)
    return Classification(FAILURE_POLICY if action is Action.FAIL else default.reason, action)


def rule_matches(rule: FailureRule, pod: TerminatedReplica) -> bool:
    """Return whether a failure meets every criterion of a rule."""
    if rule.roles is not None and pod.role not in rule.roles:
        return False
    codes = rule.on_exit_codes
    if codes is not None and (pod.exit_code is None or (pod.exit_code in codes.values) != (codes.operator == "In")):
        return False
    wanted = rule.on_pod_conditions
    if wanted is not None and not any(f"{c.type}={c.status}" in pod.conditions for c in wanted):
        return False
    return rule.on_message_pattern is None or regex.search(rule.on_message_pattern, pod.message)


def exceeded_own_storage(reason: str, message: str) -> bool:
    """Return whether the kubelet evicted a pod for a limit of its own: of a container, all of them or an emptyDir.

    Only the text distinguishes it from the eviction by a node that is low on disk (`*MessageFmt` in Kubernetes'
    pkg/kubelet/eviction).
    """
    return reason == EVICTED and _OWN_STORAGE_LIMIT.search(message) is not None


def _reports_out_of_memory(text: str) -> bool:
    message = termination_message(text) if OUT_OF_MEMORY in text else None
    return message is not None and message.reason == OUT_OF_MEMORY


def may_have_lost_peer(pod: TerminatedReplica) -> bool:
    """Return whether a failure follows from a peer's failure: by exit code 75, or by the words of its error.

    The error decides only for a program that ended by itself with an exit code of no meaning, or aborted.
    """
    if pod.exit_code == ExitCode.PEER_LOST:
        return True
    ended_by_error = pod.exit_code == _ABORTED or classify(pod).reason == APPLICATION_ERROR
    # An exit code with a meaning says more than the words of an error.
    if not ended_by_error or pod.exit_code in _OWN_CODES:
        return False
    return may_be_lost_connection(termination_summary(pod.message))


def root_cause(
    failed: Sequence[_ReplicaT], policy: FailurePolicy | None = None, order: Callable[[_ReplicaT], int] = lambda _: 0
) -> _ReplicaT:
    """Return the root cause: the first failure that is not the loss of a peer.

    Args:
        failed: the failures, at least one.
        policy: the job's own rules.
        order: rank of a failure in the order in which the caller observed it, by its own clock. `lost_at` comes from
            several nodes, whose clocks differ, and decides only between failures of equal rank.

    For a pod that is being deleted `lost_at` is the time of the request: its end, and the end of its peers, follow from
    it. Times have a resolution of one second; within a second the most severe action wins, then the name, so that every
    reconcile gives the same result. An error that only may be the loss of a peer, see `may_have_lost_peer`, is not the
    root cause if another failure has the same rank.
    """

    def rank(pod: _ReplicaT) -> tuple[bool, int]:
        return pod.exit_code == ExitCode.PEER_LOST, order(pod)

    def key(pod: _ReplicaT) -> tuple[str, int, str]:
        return pod.lost_at or "9", _SEVERITY[classify(pod, policy).action], pod.name

    # The order of observation before the times of the nodes, whose clocks differ (ADR 24).
    first = min(map(rank, failed))
    observed_first = sorted((pod for pod in failed if rank(pod) == first), key=key)
    return next((pod for pod in observed_first if not may_have_lost_peer(pod)), observed_first[0])


_SEVERITY: Final = {action: rank for rank, action in enumerate(Action)}
