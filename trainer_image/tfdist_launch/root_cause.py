"""Finds the root cause of a round that has failed. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from tfdist.api.policies import FailurePolicy
from tfdist.contract import ExitCode, LaunchMember
from tfdist.failure_classification import DISRUPTION, STALLED, Classification, classify, root_cause
from tfdist_launch.failures import ProcessFailure, partitioned_peers, unresponsive_process
from tfdist_launch.reachability import SECONDARY_REASONS, Reachability
from tfdist_launch.slots import Slot


@dataclass(frozen=True, slots=True)
class RoundCause:
    """The root cause of a round and the failures that followed from it."""

    failure: ProcessFailure | None
    """None if the launchers have no root cause: a launcher has left, and the controller records the failure of its pod,
    or it connects again and is recorded as unreachable."""
    classification: Classification = DISRUPTION
    secondary: Sequence[ProcessFailure] = ()
    stacks: str = ""


@dataclass(slots=True)
class RoundEvents:
    """Events of a round other than exits of processes."""

    unresponsive: Slot | None = None
    """The slot that sent no heartbeat when the first process failed."""
    stalled: tuple[ProcessFailure, str] | None = None
    """The failure of the straggler and the stacks of all processes, if the round has stalled."""


def find_root_cause(
    slots: Sequence[Slot],
    events: RoundEvents,
    reachability: Reachability,
    policy: FailurePolicy | None,
    now: float,
) -> RoundCause:
    """Return the root cause of a round, all of whose processes have exited."""
    failed = [slot.failure for slot in slots if slot.failure is not None]
    # The stall ended the round; what processes report while they are stopped follows from it.
    if events.stalled is not None:
        failure, stacks = events.stalled
        return RoundCause(failure, STALLED, failed, stacks)
    # No process has failed: a launcher was lost. Only the leader can tell about itself here.
    if not failed:
        return RoundCause(reachability.root_cause(slots[:1], now))
    first = root_cause(failed, policy)
    classification = classify(first, policy)
    # An outage explains these failures, whichever detected it first, TensorFlow or the lease (ADR 24).
    if classification.reason in SECONDARY_REASONS:
        outage = reachability.root_cause(slots, now)
        if outage is not None or reachability.lease_expired:
            return RoundCause(outage, DISRUPTION, failed)
    # The order matters: a process without heartbeats, then a pod that has left, then a partition, explain `PeerLost`.
    has_member_left, code = reachability.member_left, first.exit_code
    if events.unresponsive is not None and not has_member_left and code == ExitCode.PEER_LOST:
        return RoundCause(unresponsive_process(events.unresponsive.member), STALLED, failed)
    # The controller sees why the pod went, and records that once.
    if has_member_left and code in {ExitCode.PEER_LOST, ExitCode.PREEMPTED}:
        return RoundCause(None, secondary=failed)
    if code == ExitCode.PEER_LOST and (partition := _partition(failed, slots[0].member)):
        return RoundCause(partition, DISRUPTION, failed)
    return RoundCause(first, classification, [failure for failure in failed if failure is not first])


def _partition(failed: Sequence[ProcessFailure], leader: LaunchMember) -> ProcessFailure | None:
    """Return the failure of the connection between two members, each of which has lost the other; None if no two have.

    All failures of the round are `PeerLost`. A process that crashed would have another exit code, a member whose
    launcher was lost would have left.
    """
    by_name = {(str(failure.role), failure.index): failure for failure in failed}
    for failure in failed:
        for peer in sorted(failure.lost_peers & by_name.keys()):
            if (str(failure.role), failure.index) in by_name[peer].lost_peers:
                return partitioned_peers(failure, by_name[peer], leader)
    return None
