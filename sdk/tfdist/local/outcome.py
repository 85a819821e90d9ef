"""What the ends of replicas mean for a gang and for the job; pure.

Judged by the table that the controller uses (`tfdist.exits`, docs/failures.md) and by the job's own rules. The first
failure ends a gang; that of a replica which only lost its peer is no cause while another may still be found.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfdist import exits
from tfdist.api.policies import FailurePolicy, SuccessPolicy
from tfdist.contract import ExitCode, Role
from tfdist.render.gang import Gang
from tfdist.render.names import hostname

DEADLINE_EXCEEDED: Final = 124
"""The exit code of a run that took longer than `activeDeadlineSeconds`, as that of `timeout(1)`."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a replica ended; the fields below `message` are those of pods alone (`exits.Ended`)."""

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
        """Return whether it is a failure under the job's rules."""
        return self.exit_code != 0 and exits.verdict(self, policy).action is not exits.Action.IGNORE


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a gang or job ended: its exit code, and the replica that decided, where one did."""

    code: int
    replica: str = ""
    reason: str = ""
    message: str = ""
    interrupted: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was to do."""
        return self.code == 0


def decided(
    gang: Gang,
    success: SuccessPolicy,
    failure: FailurePolicy | None,
    ended: Sequence[Exit],
    *,
    waited_long: bool = False,
) -> Outcome | None:
    """Return how a gang has ended, or None while that is open.

    Args:
        gang: the gang.
        success: whose success is the gang's.
        failure: the job's own rules.
        ended: replicas in the order in which they ended, those of other gangs among them.
        waited_long: whether the failure behind a lost peer has had time to show.
    """
    names = {hostname(member.role, member.index): member.role for member in gang.members}
    leader = next(iter(names))
    own = [each for each in ended if each.name in names]
    failures = [each for each in own if each.failed(failure)]
    succeeded = {each.name for each in own} - {each.name for each in failures}
    all_workers = success is SuccessPolicy.ALL_WORKERS
    deciding = {name for name, role in names.items() if role is not Role.PS} if all_workers else {leader}
    if deciding <= succeeded:
        return Outcome(0, leader)
    causes = [each for each in failures if each.exit_code != ExitCode.PEER_LOST]
    if not failures or (not causes and not waited_long and len(own) < len(names)):
        return None
    cause = (causes or failures)[0]
    return Outcome(cause.exit_code, cause.name, exits.verdict(cause, failure).reason, cause.message)


def describe(outcome: Outcome) -> str:
    """Return in one line how a failure came about."""
    who = f"{outcome.replica} ended with exit code {outcome.code}{_signal(outcome.code)}" if outcome.replica else ""
    if who and outcome.message.startswith(f"{outcome.replica} ended with "):
        return outcome.message  # a launcher's, which says it all
    return ": ".join(part for part in (who, outcome.message) if part)


def _signal(code: int) -> str:
    try:
        return f" ({signal.Signals(code - 128).name})"
    except ValueError:
        return ""
