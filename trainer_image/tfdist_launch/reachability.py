"""Outages: a member, or the leader itself, was unreachable when a round failed.

A node that is paused or partitioned from the network makes the processes of all others fail. TensorFlow's heartbeats
report a peer as lost after ten seconds, as long as a launcher's lease lasts. So whichever expires first, the
processes that report the loss of a peer are not the root cause, and neither is a process that fails because of it with
another error. Pure: no clock, no sockets.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.failure_classification import APPLICATION_ERROR, PEER_LOST
from tfdist_launch.failures import ProcessFailure, paused_leader, unreachable_launcher
from tfdist_launch.member import LEASE_SECONDS
from tfdist_launch.slots import UNREACHABLE_SECONDS, Slot

SECONDARY_REASONS: Final = frozenset({PEER_LOST, APPLICATION_ERROR})
"""Classes of failures that an outage of a peer explains."""
RECENT_SECONDS: Final = 2 * LEASE_SECONDS
"""An outage explains failures for this time after its end."""


@dataclass(slots=True)
class Reachability:
    """Outages of members and of the leader."""

    member_left: bool = False
    """Whether a launcher has left this round, or its pod is terminating."""
    lease_expired: bool = False
    """Whether a lease has expired in this round: that launcher may connect again, or be replaced."""
    counted_round: int = -1
    """The round of which a disruption is recorded: one incident may end many members."""
    _pause_seconds: float = 0.0
    """Length of the last pause of the leader itself."""
    _pause_ended_at: float = -RECENT_SECONDS
    _ran_at: float | None = None

    def observe(self, slots: Sequence[Slot], now: float) -> None:
        """Record that the leader runs, which happens many times a second unless it, or its node, is paused."""
        gap = now - self._ran_at if self._ran_at is not None else 0.0
        self._ran_at = now
        # The leader itself did not run: that nothing arrived says nothing about the members.
        if gap > UNREACHABLE_SECONDS:
            self._pause_seconds, self._pause_ended_at = gap, now
            for slot in slots:  # no message could be received
                slot.received_at += gap

    def begin_round(self) -> None:
        """Reset the state of the last round; the gang begins the next one."""
        self.member_left = self.lease_expired = False

    def leader_was_paused(self, now: float) -> bool:
        """Return whether the leader itself was paused recently: then members only seem unreachable."""
        return now - self._pause_ended_at < RECENT_SECONDS

    def root_cause(self, slots: Sequence[Slot], now: float) -> ProcessFailure | None:
        """Return the failure of the member that was unreachable recently and is back; None if there is none."""
        # First: a leader that was paused makes all members look unreachable.
        if self.leader_was_paused(now):
            return paused_leader(slots[0].member, self._pause_seconds)
        recovered = [
            s for s in slots if s.outage_seconds and s.link is not None and now - s.outage_ended_at < RECENT_SECONDS
        ]
        longest = max(recovered, key=lambda slot: slot.outage_seconds, default=None)
        return unreachable_launcher(longest.member, longest.outage_seconds) if longest else None

    def is_any_unreachable(self, slots: Sequence[Slot], now: float) -> bool:
        """Return whether a member with a process is unreachable now."""
        return self.leader_was_paused(now) or any(
            s.active and s.received_at and now - s.received_at > UNREACHABLE_SECONDS for s in slots
        )
