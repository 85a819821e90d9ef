"""The part of a launcher that leads: the server, the leader's state machine and the stall detector."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tfdist.contract import LeaderSettings
from tfdist.contract_reports import GangReport
from tfdist.restarts.stall import position_of, stall_text
from tfdist_launch.connection import LeaderServer
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.leader import Leader
from tfdist_launch.messages import Hello, Message, Stacks, StacksRequest
from tfdist_launch.report import gang_report, shorten, waiting_for
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.settings import LauncherSettings
from tfdist_launch.slots import UNREACHABLE_SECONDS, Close, Effect, GangPhase, Send, Slot
from tfdist_launch.stall_detector import StallDetector, straggler
from tfdist_trainer import log
from tfdist_trainer.errors import UsageError
from tfdist_trainer.timestamps import now_text

LOCAL: Final = 0
"""The connection of the member of this launcher."""

LOG_INTERVAL_SECONDS: Final = 10.0
STALL_CHECK_SECONDS: Final = 1.0
"""Reports arrive as often, and a check reads all of them."""
REPORT_CACHE_SECONDS: Final = 0.5
"""A summary of the gang serves all requests of this time: it takes 30 ms for 10,000 members."""
STACKS_TIMEOUT_SECONDS: Final = 4.0
STACKS_CHARACTERS: Final = 2000
"""Of each member's stacks in a report."""
SHUTDOWN_TIMEOUT_SECONDS: Final = 5.0


class Coordinator:
    """The leader and its I/O."""

    def __init__(self, settings: LauncherSettings, gang: LeaderSettings, on_message: Callable[[Message], None]) -> None:
        """`on_message` passes the leader's messages to the member of this launcher.

        Raises:
            UsageError: the job's failure policy is invalid.
        """
        job = settings.job
        try:
            restart_policy = RestartPolicy.of(gang, job.uid)
        except ValueError as error:
            raise UsageError(f"TFDIST_JOB: launch.gang.rules: {error}") from None
        # The time makes identifiers unique after a restart of the leader within one attempt: the controller counts by
        # them.
        history = FailureHistory(f"{job.attempt}-{int(time.time() * 1000):x}", now_text)
        independent = settings.independent_roles
        self.leader = Leader(
            gang,
            restart_policy,
            history,
            independent=independent,
            standby=settings.standby,
            saving_seconds=job.saving_seconds,
        )
        self._on_message = on_message
        self._connections = LeaderServer(
            self._handle_hello,
            self._handle_message,
            self._handle_loss,
            token=settings.token,
            members=len(gang.members),
        )
        self._stall_detector = StallDetector(gang.progress_deadline_seconds)
        self._waiting_since: float | None = None
        self._ran_at = time.monotonic()
        self._checked_at = float("-inf")
        self._report: tuple[float, int, GangReport] | None = None
        """Time, number of failures so far, report."""
        self._stacks_requested_at: float | None = None
        self._stacks: dict[str, str] = {}

    async def listen(self, port: int) -> None:
        """Begin to listen.

        Raises:
            UsageError: the port is not available.
        """
        try:
            self._server = await self._connections.serve(port)
        except OSError as error:
            raise UsageError(f"TFDIST_LAUNCH_PORT: cannot listen on port {port}: {error.strerror}") from None

    async def close(self) -> None:
        """Close the server when the members have disconnected, at the latest after `SHUTDOWN_TIMEOUT_SECONDS`."""
        if self.leader.state is GangPhase.OVER:
            await self._connections.wait_until_empty(SHUTDOWN_TIMEOUT_SECONDS)
        self._server.close()

    @property
    def has_succeeded(self) -> bool:
        """Whether the gang has succeeded."""
        return self.leader.has_succeeded

    def connect_local(self, hello: Hello) -> None:
        """Connect the member of this launcher."""
        self._handle_hello(LOCAL, hello)

    def receive_local(self, message: Message) -> None:
        """Receive a message of the member of this launcher."""
        self._handle_message(LOCAL, message)

    def tick(self) -> None:
        """Carry out what is due, and log which members the gang waits for."""
        now = time.monotonic()
        # First, so that the stall check sees the state that is due.
        self._carry_out(self.leader.tick(now))
        if now - self._ran_at > UNREACHABLE_SECONDS:  # a paused launcher receives no reports
            self._stall_detector.changed_at += now - self._ran_at
        self._ran_at = now
        # At each tick once stacks are requested: the round ends when all have come.
        if now - self._checked_at >= STALL_CHECK_SECONDS or self._stacks_requested_at is not None:
            self._checked_at = now
            self._check_for_stall(now)
        self._log_waiting(now)

    def report(self) -> GangReport:
        """Return a report of the gang that is at most `REPORT_CACHE_SECONDS` old; its failures are always current."""
        now, count = time.monotonic(), self.leader.history.count
        # A new failure is never served late: the report ends with this process.
        if self._report is None or self._report[1] != count or now - self._report[0] > REPORT_CACHE_SECONDS:
            self._report = now, count, gang_report(self.leader, now)
        return self._report[2]

    def _log_waiting(self, now: float) -> None:
        """Log every `LOG_INTERVAL_SECONDS` what the gang waits for."""
        if next(waiting_for(self.leader, now), None) is None:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= LOG_INTERVAL_SECONDS:
            self._waiting_since = now
            log.event("waiting", message="; ".join(shorten(waiting_for(self.leader, now))))

    def _handle_hello(self, link: int, hello: Hello) -> None:
        self._carry_out(self.leader.member_connected(link, hello, time.monotonic()))

    def _handle_message(self, link: int, message: Message) -> None:
        # Kept here: stacks are text for people, and the state machine decides nothing by them.
        if isinstance(message, Stacks):
            slot = self.leader.slot_of(link)
            if slot is not None and message.round == slot.round:
                self._stacks[slot.name] = message.text
            return
        self._carry_out(self.leader.handle_message(link, message, time.monotonic()))

    def _handle_loss(self, link: int, lease_expired: bool) -> None:
        self._carry_out(self.leader.member_disconnected(link, time.monotonic(), lease_expired=lease_expired))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                # Later, not at once: the member's reaction would call the leader while it still returns effects.
                case Send(link, message) if link == LOCAL:
                    asyncio.get_running_loop().call_soon(self._on_message, message)
                case Send(link, message):
                    self._connections.send(link, message)
                case Close(link):
                    self._connections.close(link)

    def _check_for_stall(self, now: float) -> None:
        if self.leader.state is not GangPhase.RUNNING:
            self._stacks_requested_at = None
            return
        stalled_seconds = self._stall_detector.stalled_seconds(self.leader.slots, self.leader.round, now)
        if stalled_seconds is None:
            self._stacks_requested_at = None
            return
        running = [slot for slot in self.leader.slots if slot.active and slot.link is not None]
        # First the stacks of all, while they still wait for each other; only then the processes are stopped.
        if self._stacks_requested_at is None:
            self._stacks_requested_at, self._stacks = now, {}
            self._carry_out([Send(s.link, StacksRequest(round=s.round)) for s in running if s.link is not None])
        elif now - self._stacks_requested_at > STACKS_TIMEOUT_SECONDS or len(self._stacks) == len(running):
            self._end_stalled_round(running, stalled_seconds, now)

    def _end_stalled_round(self, running: list[Slot], stalled_seconds: float, now: float) -> None:
        """Begin the next round, and report the straggler as the root cause; the leader if none is known to be one."""
        self._stacks_requested_at = None
        slowest = straggler(running)
        stacks = "\n".join(f"== {s.name}\n{self._stacks.get(s.name, '')[:STACKS_CHARACTERS]}" for s in running)
        name = slowest.name if slowest else ""
        log.event("stalled", seconds=stalled_seconds, straggler=name or None)
        print(stacks, flush=True)
        text = stall_text(stalled_seconds, name, (position_of(s.report) for s in running if s.report is not None))
        self._carry_out(self.leader.handle_stall(slowest or self.leader.slots[0], text, stacks, now))
