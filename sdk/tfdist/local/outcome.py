"""Result of a gang from the exit codes of its replicas; pure.

The controller's rules (`tfdist.failure_classification`, docs/failures.md) and the job's failure policy classify the
exit codes. The first failure ends a gang. A replica that failed because its peer was lost is not taken for the root
cause while another failure may still be observed.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.api.policies import FailurePolicy, SuccessPolicy
from tfdist.contract import ExitCode, Role
from tfdist.failure_classification import Action, classify
from tfdist.render.gang import Gang
from tfdist.render.names import hostname

DEADLINE_EXCEEDED: Final = 124
"""Exit code of a run that exceeded `activeDeadlineSeconds`, the same as that of `timeout(1)`."""


@dataclass(frozen=True, slots=True)
class ReplicaExit:
    """Termination of a replica; the fields after `message` exist for pods only (`TerminatedReplica`)."""

    name: str
    role: Role
    exit_code: int
    message: str
    reason: str = ""
    conditions: tuple[str, ...] = ()
    disrupted: bool = False
    deleting: bool = False
    lost_at: str = ""

    def failed(self, policy: FailurePolicy | None) -> bool:
        """Return whether it is a failure under the job's failure policy."""
        return self.exit_code != 0 and classify(self, policy).action is not Action.IGNORE


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a gang or job: its exit code, and the replica that determined it, if one did."""

    code: int
    replica: str = ""
    reason: str = ""
    message: str = ""
    interrupted: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the exit code is 0."""
        return self.code == 0


def gang_outcome(
    gang: Gang,
    success: SuccessPolicy,
    failure: FailurePolicy | None,
    ended: Sequence[ReplicaExit],
    *,
    peer_grace_over: bool = False,
) -> Outcome | None:
    """Return the result of a gang, or None while it is undecided.

    Args:
        gang: the gang.
        success: the job's success policy.
        failure: the job's failure policy.
        ended: terminated replicas in the order of termination, also of other gangs.
        peer_grace_over: whether the wait for the root cause of a lost peer is over.
    """
    names = {hostname(member.role, member.index): member.role for member in gang.members}
    leader = next(iter(names))
    own = [each for each in ended if each.name in names]
    failures = [each for each in own if each.failed(failure)]
    succeeded = {each.name for each in own} - {each.name for each in failures}
    all_workers = success is SuccessPolicy.ALL_WORKERS
    required = {name for name, role in names.items() if role is not Role.PS} if all_workers else {leader}
    if required <= succeeded:
        return Outcome(0, leader)
    root_causes = [each for each in failures if each.exit_code != ExitCode.PEER_LOST]
    if not failures or (not root_causes and not peer_grace_over and len(own) < len(names)):
        return None
    cause = (root_causes or failures)[0]
    return Outcome(cause.exit_code, cause.name, classify(cause, failure).reason, cause.message)


def describe(outcome: Outcome) -> str:
    """Return a failure in one line: replica, exit code, signal, message."""
    ended = f"{outcome.replica} ended with exit code {outcome.code}{_signal(outcome.code)}" if outcome.replica else ""
    if ended and outcome.message.startswith(f"{outcome.replica} ended with "):
        return outcome.message  # the message of a launcher is complete
    return ": ".join(part for part in (ended, outcome.message) if part)


def _signal(code: int) -> str:
    try:
        return f" ({signal.Signals(code - 128).name})"
    except ValueError:
        return ""
