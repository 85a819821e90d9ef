"""The leader's side of the rendezvous: a state machine without clocks, sockets or processes.

Its invariant: a round begins only when every member is connected and has reported that no training process of it runs;
and after a lease has expired, only when the other side must have noticed too and stopped its process (fencing). So
processes of two rounds never run at the same time, whatever message is lost or late and whatever is killed.

Under the parameter server strategy each worker is a separate failure domain (`independent`): it is restarted alone,
with a new round number of the same counter, while the others continue.
"""

from collections.abc import Sequence
from typing import Final

from tfdist.contract import ExitCode, LeaderSettings, Role
from tfdist.contract_reports import GangEnd
from tfdist.failure_classification import DISRUPTION, Action, Classification, classify
from tfdist.restarts.budget import BudgetDecision
from tfdist_launch import slots
from tfdist_launch.failure_history import FailureHistory, gang_failure_message
from tfdist_launch.failures import ProcessFailure, process_failure, unreachable_launcher
from tfdist_launch.member import FENCING_SECONDS
from tfdist_launch.messages import (
    GangFailed,
    GangSucceeded,
    Heartbeat,
    Hello,
    LauncherRejected,
    Message,
    ProcessExited,
    ProcessStopped,
    StartRound,
    Terminating,
)
from tfdist_launch.reachability import SECONDARY_REASONS, Reachability
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.root_cause import RoundCause, RoundEvents, find_root_cause
from tfdist_launch.slots import Close, Effect, GangPhase, Link, ProcessState, Send, Slot

ROOT_CAUSE_WAIT_SECONDS: Final = 0.5
"""After a process has reported `PeerLost` the others continue for this time: the failed peer may report after it."""

PEER_REPORT_WAIT_SECONDS: Final = 5.0
"""The same if the lost peer still runs and is connected: its report shows a crash, or a failure of the network."""


class Leader:
    """The gang as the launcher of member 0 leads it. Every input returns the effects to carry out."""

    def __init__(
        self,
        settings: LeaderSettings,
        restart_policy: RestartPolicy,
        history: FailureHistory,
        *,
        independent: frozenset[Role],
        standby: bool,
        saving_seconds: float,
    ) -> None:
        """Roles `independent` restart alone, `standby` processes are kept, preempted ones save for `saving_seconds`."""
        self.slots = [Slot(member) for member in settings.members]
        self.state = GangPhase.WAITING
        self.round = -1
        """The newest round."""
        self.restart_policy, self.history = restart_policy, history
        self.not_before = self._failed_at = 0.0
        self._independent, self._standby, self._saving_seconds = independent, standby, saving_seconds
        self._reachability = Reachability()
        self._links: dict[Link, Slot] = {}
        self._stop_at: float | None = None
        """When the processes of an ending round are stopped, as long as `PeerLost` is its only failure."""
        self._events = RoundEvents()
        self._final_message: Message | None = None

    # Inputs

    def member_connected(self, link: Link, hello: Hello, now: float) -> list[Effect]:
        """Handle the `Hello` of a launcher over a new connection."""
        # Each input shows that the leader itself runs; a gap between two means that it was paused.
        self._reachability.observe(self.slots, now)
        # An old launcher of the rank must not take the slot back from its successor.
        reason = slots.rejection_reason(self.slots, self.restart_policy.job, hello)
        if reason:
            return [Send(link, LauncherRejected(reason=reason)), Close(link)]
        # A member that was disconnected at the end of the gang still learns how it ended.
        if self._final_message is not None:
            return [Send(link, self._final_message)]
        slot = self.slots[hello.rank]
        effects: list[Effect] = []
        if slot.link is not None:
            is_replaced, previous = hello.precedence > slot.precedence, slot.link
            effects += (
                [Send(previous, LauncherRejected(reason="another launcher has taken this slot"))] if is_replaced else []
            )
            # The old launcher may still run its process, unless it is the same launcher that connects again.
            effects += [Close(previous), *self.member_disconnected(previous, now, lease_expired=is_replaced)]
        # The same launcher is back after a silence: its node or the network failed, and not its process (ADR 24).
        if slot.precedence == hello.precedence and (slot.lease_expired or hello.wait_seconds):
            self._record_unreachable(slot, now)
        slot.link, slot.precedence, slot.lease_expired, slot.terminating = link, hello.precedence, False, False
        slot.received_at = now
        self._links[link] = slot
        # A new leader continues the numbers of its predecessor: a member starts only newer rounds.
        self.round = max(self.round, hello.highest_round)
        # Fencing: the member may know of a leader whose processes have not stopped yet.
        self.not_before = max(self.not_before, now + hello.wait_seconds)
        return effects + self.tick(now)

    def member_disconnected(self, link: Link, now: float, *, lease_expired: bool) -> list[Effect]:
        """Handle the loss of a connection; with `lease_expired` its launcher may not have noticed it yet."""
        slot = self._links.pop(link, None)
        if slot is None:
            return []
        self._reachability.observe(self.slots, now)
        slot.link, was_active, slot.process, slot.standby = None, slot.active, ProcessState.NONE, None
        if (was_active or lease_expired) and not self._is_independent(slot):
            self._reachability.member_left = True
            self._reachability.lease_expired = self._reachability.lease_expired or lease_expired
        # Fencing (ADR 15): the other side may notice only a lease later, and its process runs until then.
        if lease_expired:
            slot.lease_expired = True
            self.not_before = max(self.not_before, now + FENCING_SECONDS)
        # Also if its process has exited: after an expired lease it may join a successor of this leader in a new round.
        if self._has_no_root_cause and (was_active or lease_expired) and not self._is_independent(slot):
            return self._end_round() + self.tick(now)
        return self.tick(now)

    def handle_message(self, link: Link, message: Message, now: float) -> list[Effect]:
        """Handle a message of a member."""
        self._reachability.observe(self.slots, now)
        slot = self._links.get(link)
        if slot is None or self.state is GangPhase.OVER:
            return []
        slot.record_message(now)
        match message:
            case Heartbeat():  # no tick, which may read all slots: one member of 10,000 sends it each 0.1 ms
                slot.heartbeat = message if slot.active else slot.heartbeat
                return []
            case Terminating():
                # The pod is going: what its peers report next follows from that.
                slot.terminating = self._reachability.member_left = True
            # Only of the current round: a message may be late.
            case ProcessExited(round=number) if slot.active and number == slot.round:
                return self._process_exited(slot, message, now) + self.tick(now)
            case ProcessStopped(round=number) if slot.process is ProcessState.STOPPING and number == slot.round:
                slot.process, slot.standby = ProcessState.NONE, message.standby
        return self.tick(now)

    def handle_stall(self, straggler: Slot, message: str, stacks: str, now: float) -> list[Effect]:
        """Handle a stall: no step has ended before the progress deadline, and the others wait for `straggler`."""
        if self.state is not GangPhase.RUNNING:
            return []
        member = straggler.member
        failure = ProcessFailure(role=member.role, index=member.index, exit_code=None, message=message)
        self._events.stalled = failure, stacks
        return self._end_round() + self.tick(now)

    def tick(self, now: float) -> list[Effect]:
        """Return the effects that are due at this time and in this state."""
        self._reachability.observe(self.slots, now)
        # The wait for a root cause behind `PeerLost` is over.
        if self._stop_at is not None and now >= self._stop_at:
            return self._end_round() + self.tick(now)
        # The cause is decided when all have exited: the decisive exit may be the last to arrive.
        if self.state is GangPhase.ENDING and not any(slot.active for slot in self.slots):
            effects = self._round_ended(now)
            if effects:
                return effects
        # The invariant of the module: all connected, no process left, and every lease that expired has expired on both
        # sides.
        if self.state is GangPhase.WAITING and now >= self.not_before and all(slot.ready for slot in self.slots):
            self.state = GangPhase.RUNNING
            self._reachability.begin_round()
            return self._start(self.slots, now)
        if self.state is GangPhase.RUNNING and self._independent and now >= self.not_before:
            return self._start([s for s in self.slots if self._may_restart_alone(s, now)], now, independent=True)
        return []

    def slot_of(self, link: Link) -> Slot | None:
        """Return the slot of a connection; None if it has none."""
        return self._links.get(link)

    @property
    def has_succeeded(self) -> bool:
        """Whether the gang has succeeded."""
        return isinstance(self._final_message, GangSucceeded)

    # Rounds

    def _start(self, started: Sequence[Slot], now: float, *, independent: bool = False) -> list[Effect]:
        """Begin a round of the slots `started`: all with one number, or if `independent` each with its own."""
        effects: list[Effect] = []
        self.round += not independent
        # All or none: processes of two kinds would wait for each other at different points (ADR 17).
        standby = not independent and all(slot.standby == self.round for slot in started)
        # By the round, so that all members agree, also one whose pod was replaced.
        other_port = self._standby and self.round % 2 == 1
        for slot in started:
            self.round += independent
            slot.begin_round(self.round, now)
            if slot.link is not None:
                effects.append(Send(slot.link, StartRound(round=self.round, standby=standby, other_port=other_port)))
        return effects

    def _process_exited(self, slot: Slot, message: ProcessExited, now: float) -> list[Effect]:
        """Handle the exit of a process that was not stopped."""
        slot.process, slot.standby = ProcessState.NONE, message.standby
        # The last report of the process is newer than its last heartbeat.
        if message.report is not None:
            slot.heartbeat = Heartbeat(alive=False, report=message.report)
        result = message.outcome
        # Of the first failure only: the later ones are measured from it.
        if self.state is GangPhase.RUNNING:
            self._failed_at, self._events.unresponsive = now, slots.first_unresponsive(self.slots)
        completed = slots.completed_members(self.slots, self._independent)
        failure = process_failure(slot.member, result, now - self._failed_at, completed)
        # A failure that the job's rules ignore is as good as success.
        if result.ok or classify(failure, self.restart_policy.failure_policy).action is Action.IGNORE:
            slot.done = True
            return self._finish(GangSucceeded()) if self._is_complete() else []
        slot.failure = None if slot.terminating else failure
        # Others train on without it; only this member is restarted.
        if self._is_independent(slot) and not slot.terminating and self.state is GangPhase.RUNNING:
            return self._independent_failed(slot, failure, now)
        # A cause of its own, or a pod that goes: waiting longer would show nothing new.
        if result.exit_code != ExitCode.PEER_LOST or slot.terminating:
            return self._end_round(result.exit_code) if self._has_no_root_cause else []
        # If the lost peer still runs, its own report tells a crash from a failure of the network.
        runs = slots.is_any_running(self.slots, failure.lost_peers)
        stop_at = now + (PEER_REPORT_WAIT_SECONDS if runs else ROOT_CAUSE_WAIT_SECONDS)
        if self.state is GangPhase.RUNNING:
            self.state, self._stop_at = GangPhase.ENDING, stop_at
        elif self._stop_at is not None and not runs:
            self._stop_at = min(self._stop_at, stop_at)
        return []

    def _end_round(self, exit_code: int | None = None) -> list[Effect]:
        """Stop all processes; `exit_code` is of the process that ended the round, if one did."""
        self.state, self._stop_at = GangPhase.ENDING, None
        return slots.stop_round(self.slots, exit_code, self._saving_seconds)

    def _round_ended(self, now: float) -> list[Effect]:
        """Find the root cause of a round whose processes have all exited, and decide whether another round follows."""
        self.state, self._stop_at = GangPhase.WAITING, None
        policy = self.restart_policy.failure_policy
        cause = find_root_cause(self.slots, self._events, self._reachability, policy, now)
        # For the next round, which may fail in another way.
        self._events.stalled = None
        for slot in self.slots:
            slot.failure = None
        return self._restart_or_fail(cause, now)

    def _restart_or_fail(self, cause: RoundCause, now: float) -> list[Effect]:
        """Record the failures of a round, and decide whether another round follows."""
        failure, secondary = cause.failure, list(cause.secondary)
        if failure is not None and cause.classification is DISRUPTION:
            if self._reachability.counted_round == self.round:  # one incident counts once, however many it affects
                secondary.append(failure)
                failure = None
            else:
                self._reachability.counted_round = self.round
        self.history.record_secondary(secondary, self.round, slots.last_step(self.slots))
        if failure is None:
            return []
        # The controller must replace the pod: a new process on the same node would fail again.
        if cause.classification.action is Action.AVOID_NODE:
            return slots.leave_node(self.slots, failure)
        decision = self._decide(failure, cause.classification, now, cause.stacks)
        # The back-off is a time before which no round begins; members connect meanwhile.
        self.not_before = max(self.not_before, now + decision.delay_seconds)
        return self._fail(failure, cause.classification, decision) if decision.final else []

    def _independent_failed(self, slot: Slot, failure: ProcessFailure, now: float) -> list[Effect]:
        """Count the failure of a member that is a separate failure domain."""
        slot.failure = None
        classification = classify(failure, self.restart_policy.failure_policy)
        # A node that is silent now explains the loss of a peer: it is recorded when it is back.
        outage = self._reachability.is_any_unreachable(self.slots, now)
        if outage and classification.reason in SECONDARY_REASONS:
            self.history.record_secondary([failure], self.round, slots.last_step(self.slots))
            return []
        if classification.action is Action.AVOID_NODE:
            return slots.leave_node(self.slots, failure)
        decision = self._decide(failure, classification, now)
        slot.not_before = now + decision.delay_seconds
        return self._fail(failure, classification, decision) if decision.final else []

    def _decide(
        self, failure: ProcessFailure, classification: Classification, now: float, stacks: str = ""
    ) -> BudgetDecision:
        """Decide about a root cause, and record it."""
        checkpoint, step = slots.newest_checkpoint(self.slots), slots.last_step(self.slots)
        ran_seconds = slots.failed_slot(self.slots, failure).ran_seconds(now)
        decision = self.restart_policy.decide(classification, failure, checkpoint, ran_seconds)
        flags = {"counted": decision.counted, "root_cause": True}
        self.history.record(failure, classification.reason, self.round, step, stacks=stacks, **flags)
        return decision

    def _record_unreachable(self, slot: Slot, now: float) -> None:
        """Record that a launcher was unreachable temporarily and is the same one as before."""
        if not self._reachability.leader_was_paused(now):  # else the leader was the unreachable one
            failure = unreachable_launcher(slot.member, now - slot.received_at)
            self._restart_or_fail(RoundCause(failure), now)

    # The end of the gang

    def _fail(self, cause: ProcessFailure, classification: Classification, decision: BudgetDecision) -> list[Effect]:
        restarts = self.restart_policy.restarts
        end = GangEnd(role=cause.role, index=cause.index, round=self.round, reason=decision.final, restarts=restarts)
        text = gang_failure_message(cause, classification.reason, decision.remedy, end, self.slots[0].report)
        return self._finish(GangFailed(exit_code=cause.launcher_exit_code, termination=text))

    def _finish(self, message: Message) -> list[Effect]:
        self.state, self._final_message = GangPhase.OVER, message
        return [Send(link, message) for link in self._links]

    def _is_complete(self) -> bool:
        return self.state is GangPhase.RUNNING and slots.required_are_done(self.slots)

    # Questions

    @property
    def _has_no_root_cause(self) -> bool:
        """Whether nothing has ended the round yet, or only failures with `PeerLost`."""
        return self.state is GangPhase.RUNNING or self._stop_at is not None

    def _is_independent(self, slot: Slot) -> bool:
        return slot.member.role in self._independent

    def _may_restart_alone(self, slot: Slot, now: float) -> bool:
        return self._is_independent(slot) and slot.ready and not slot.done and now >= slot.not_before
