"""The leading launcher's part: its connections, the leader's state machine, and the watch for stalls."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from tfdist.contract import LeaderSettings
from tfdist.contract_reports import GangReport
from tfdist_launch.gang import Close, Effect, Seat, Send, Standing
from tfdist_launch.history import History
from tfdist_launch.leader import Leader
from tfdist_launch.limits import Limits
from tfdist_launch.link import Leading
from tfdist_launch.messages import Hello, Message, Stacks, WantStacks
from tfdist_launch.report import gang_report, waiting_for
from tfdist_launch.settings import Place
from tfdist_launch.stall import Watch, behind
from tfdist_trainer import log
from tfdist_trainer.errors import UsageError
from tfdist_trainer.reporter import now_text

HERE: Final = 0
"""The connection to the member of this very launcher."""

SAY_SECONDS: Final = 10.0
STACKS_SECONDS: Final = 4.0
STACKS_CHARACTERS: Final = 2000
"""Of each member's stacks in a report."""
FAREWELL_SECONDS: Final = 5.0


class Coordinator:
    """The leader and what it works with."""

    def __init__(self, place: Place, gang: LeaderSettings, on_message: Callable[[Message], None]) -> None:
        """`on_message` takes what the leader says to the member of this launcher.

        Raises:
            UsageError: the rules of the job's failure policy are none.
        """
        job = place.job
        try:
            limits = Limits.of(gang, job.uid)
        except ValueError as error:
            raise UsageError(f"TFDIST_JOB: launch.gang.rules: {error}") from None
        prefix = f"{job.attempt}-{int(time.time() * 1000):x}"
        self.leader = Leader(gang, limits, History(prefix, now_text), alone=place.alone, standby=place.standby)
        self._on_message = on_message
        self._links = Leading(self._joined, self._told, self._left)
        self._watch = Watch(gang.progress_deadline_seconds)
        self._said_at = time.monotonic()
        self._asked_at: float | None = None
        self._stacks: dict[str, str] = {}

    async def begin(self, port: int) -> None:
        """Begin to listen.

        Raises:
            UsageError: the port cannot be had.
        """
        try:
            self._server = await self._links.serve(port)
        except OSError as error:
            raise UsageError(f"TFDIST_LAUNCH_PORT: cannot listen on port {port}: {error.strerror}") from None

    async def end(self) -> None:
        """Return when the others are gone, or a while after they were told to go."""
        if self.leader.standing is Standing.OVER:
            await self._links.emptied(FAREWELL_SECONDS)
        self._server.close()

    @property
    def succeeded(self) -> bool:
        """Whether the gang is done."""
        return self.leader.succeeded

    def joined_here(self, hello: Hello) -> None:
        """The member of this launcher says hello."""
        self._joined(HERE, hello)

    def told_here(self, message: Message) -> None:
        """The member of this launcher says something."""
        self._told(HERE, message)

    def tick(self) -> None:
        """Do what is due, and say whom the gang waits for."""
        now = time.monotonic()
        self._carry_out(self.leader.tick(now))
        self._look_for_a_stall(now)
        waits = list(waiting_for(self.leader, now))
        if not waits:
            self._said_at = now
        elif now - self._said_at >= SAY_SECONDS:
            self._said_at = now
            log.event("waiting", message="; ".join(waits))

    def report(self) -> GangReport:
        """Return the gang as it stands."""
        return gang_report(self.leader, time.monotonic())

    def _joined(self, link: int, hello: Hello) -> None:
        self._carry_out(self.leader.joined(link, hello, time.monotonic()))

    def _told(self, link: int, message: Message) -> None:
        if isinstance(message, Stacks):
            seat = next((s for s in self.leader.seats if s.link == link), None)
            if seat is not None and message.round == seat.round:
                self._stacks[seat.name] = message.text
            return
        self._carry_out(self.leader.told(link, message, time.monotonic()))

    def _left(self, link: int, silent: bool) -> None:
        self._carry_out(self.leader.left(link, time.monotonic(), silent=silent))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, message) if link == HERE:
                    asyncio.get_running_loop().call_soon(self._on_message, message)
                case Send(link, message):
                    self._links.send(link, message)
                case Close(link):
                    self._links.close(link)

    def _look_for_a_stall(self, now: float) -> None:
        if self.leader.standing is not Standing.RUNNING:
            self._asked_at = None
            return
        still = self._watch.still_seconds(self.leader.seats, self.leader.round, now)
        if still is None:
            self._asked_at = None
            return
        asked = [seat for seat in self.leader.seats if seat.active and seat.link is not None]
        if self._asked_at is None:
            self._asked_at, self._stacks = now, {}
            self._carry_out([Send(s.link, WantStacks(round=s.round)) for s in asked if s.link is not None])
        elif now - self._asked_at > STACKS_SECONDS or len(self._stacks) == len(asked):
            self._end_stalled(asked, still, now)

    def _end_stalled(self, asked: list[Seat], still: float, now: float) -> None:
        """Begin the next round, naming the one who is behind."""
        self._asked_at = None
        late = behind(asked)
        stacks = "\n".join(f"== {s.name}\n{self._stacks.get(s.name, '')[:STACKS_CHARACTERS]}" for s in asked)
        log.event("stalled", seconds=still, behind=late.name)
        print(stacks, flush=True)
        text = f"no step was completed for {still:.0f} s; {late.name} is behind"
        self._carry_out(self.leader.stalled(late, text, stacks, now))
