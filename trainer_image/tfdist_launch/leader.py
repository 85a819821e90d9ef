"""The leader's side of the rendezvous: a state machine without clocks, sockets or processes.

Its invariant: a round begins only when every member is connected and has said that no program of it runs; and when a
connection was lost by silence, only after the other side must have noticed and stopped its program. So programs of
two rounds never run at the same time, whatever is lost, late or killed.

With a parameter server's strategy each worker is a domain of its own (`alone`): it alone is started again while the
others go on, under a new round number of the same counter.
"""

from collections.abc import Sequence
from typing import Final

from tfdist.contract import ExitCode, LeaderSettings, Role
from tfdist.contract_reports import GangEnd
from tfdist.exits import SECONDARY, STALLED, Action, Verdict, root_cause, verdict
from tfdist_launch import gang
from tfdist_launch.gang import Close, Effect, Link, Program, Seat, Send, Standing
from tfdist_launch.history import History, last_words
from tfdist_launch.limits import Casualty, Limits, Ruling
from tfdist_launch.member import SURE_SECONDS
from tfdist_launch.messages import (
    Beat,
    Done,
    Ended,
    GiveUp,
    Hello,
    Leaving,
    Message,
    Refused,
    Start,
    Stopped,
)

WORDS_SECONDS: Final = 0.5
"""How long the others' programs go on after one has lost a peer: its loss may be told before how that one ended."""


class Leader:
    """The gang as member 0's launcher leads it. Every input gives the effects to carry out."""

    def __init__(
        self, settings: LeaderSettings, limits: Limits, history: History, *, alone: frozenset[Role], standby: bool
    ) -> None:
        """Replicas of the roles `alone` start again by themselves; with `standby` each keeps a program in reserve."""
        self.seats = [Seat(member) for member in settings.members]
        self.standing = Standing.WAITING
        self.round = -1
        """The newest round."""
        self.limits = limits
        self.history = history
        self.not_before = 0.0
        self._alone, self._standby = alone, standby
        self._links: dict[Link, Seat] = {}
        self._first_failure = 0.0
        self._stop_at: float | None = None
        """When the programs of a round that ends are stopped, while nothing but the loss of a peer has ended it."""
        self._missed: Seat | None = None
        """Who showed no sign of life when the round's first program failed."""
        self._stalled: tuple[Casualty, str] | None = None
        self._somebody_left = False
        self._last_word: Message | None = None

    # What happens

    def joined(self, link: Link, hello: Hello, now: float) -> list[Effect]:
        """A launcher has said hello over a new connection."""
        reason = gang.refusal(self.seats, self.limits.job, hello)
        if reason:
            return [Send(link, Refused(reason=reason)), Close(link)]
        if self._last_word is not None:
            return [Send(link, self._last_word)]
        seat = self.seats[hello.seat]
        effects: list[Effect] = []
        if seat.link is not None:
            replaced, old = hello.rank > seat.rank, seat.link
            effects += [Send(old, Refused(reason="another launcher has this seat"))] if replaced else []
            # The one that sits here has not let go of its program, unless it is the very one that comes again.
            effects += [Close(old), *self.left(old, now, silent=replaced)]
        if seat.silent_since is not None and seat.rank == hello.rank:
            self._was_away(seat, now)
        seat.link, seat.rank, seat.silent_since, seat.leaving = link, hello.rank, None, False
        self._links[link] = seat
        self.round = max(self.round, hello.highest_round)
        self.not_before = max(self.not_before, now + hello.wait_seconds)
        return effects + self.tick(now)

    def left(self, link: Link, now: float, *, silent: bool) -> list[Effect]:
        """A connection is lost; `silent`: nothing came for a lease, and its launcher may go on for another."""
        seat = self._links.pop(link, None)
        if seat is None:
            return []
        seat.link, was_active, seat.program, seat.standby = None, seat.active, Program.NONE, None
        if silent:
            seat.silent_since = now
            self.not_before = max(self.not_before, now + SURE_SECONDS)
        # One whose program is done, but that went silent, may have found a successor of this leader and begin anew.
        if self._is_unexplained and (was_active or silent) and not self._is_alone(seat):
            self._somebody_left = True
            return self._end_round() + self.tick(now)
        return self.tick(now)

    def told(self, link: Link, message: Message, now: float) -> list[Effect]:
        """Return what a message of a member leads to."""
        seat = self._links.get(link)
        if seat is None or self.standing is Standing.OVER:
            return []
        match message:
            case Beat() if seat.active:
                seat.beat = message
            case Leaving():
                seat.leaving = self._somebody_left = True
            case Ended(round=number) if seat.active and number == seat.round:
                return self._ended(seat, message, now) + self.tick(now)
            case Stopped(round=number) if seat.program is Program.STOPPING and number == seat.round:
                seat.program, seat.standby = Program.NONE, message.standby
        return self.tick(now)

    def stalled(self, behind: Seat, message: str, stacks: str, now: float) -> list[Effect]:
        """No step has ended for too long; `behind` is the one that the others wait for."""
        if self.standing is not Standing.RUNNING:
            return []
        member = behind.member
        self._stalled = Casualty(role=member.role, index=member.index, exit_code=None, message=message), stacks
        return self._end_round() + self.tick(now)

    def tick(self, now: float) -> list[Effect]:
        """Return what the time, or what has just happened, allows."""
        if self._stop_at is not None and now >= self._stop_at:
            return self._end_round() + self.tick(now)
        if self.standing is Standing.ENDING and not any(seat.active for seat in self.seats):
            over = self._judge(now)
            if over:
                return over
        if self.standing is Standing.WAITING and now >= self.not_before and all(seat.ready for seat in self.seats):
            self.standing = Standing.RUNNING
            self._somebody_left = False
            return self._start(self.seats)
        if self.standing is Standing.RUNNING and self._alone and now >= self.not_before:
            return self._start([s for s in self.seats if self._may_start_alone(s, now)], alone=True)
        return []

    @property
    def succeeded(self) -> bool:
        """Whether the gang is done."""
        return isinstance(self._last_word, Done)

    @property
    def newest_checkpoint(self) -> int:
        """The step of the newest checkpoint that a member has told of, or -1."""
        reports = (seat.report for seat in self.seats)
        return max((r.last_checkpoint.step for r in reports if r and r.last_checkpoint), default=-1)

    @property
    def step(self) -> int | None:
        """The last step that a member has told of."""
        return max((s.report.step for s in self.seats if s.report and s.report.step is not None), default=None)

    # Rounds

    def _start(self, seats: Sequence[Seat], *, alone: bool = False) -> list[Effect]:
        """Begin a round of `seats`: of one number together, or of one each."""
        effects: list[Effect] = []
        self.round += not alone
        standby = not alone and all(seat.standby == self.round for seat in seats)
        other_port = self._standby and self.round % 2 == 1
        for seat in seats:
            self.round += alone
            seat.started(self.round)
            if seat.link is not None:
                effects.append(Send(seat.link, Start(round=self.round, standby=standby, other_port=other_port)))
        return effects

    def _ended(self, seat: Seat, message: Ended, now: float) -> list[Effect]:
        """The program of a seat has ended by itself."""
        seat.program, seat.standby = Program.NONE, message.standby
        if message.report is not None:
            seat.beat = Beat(alive=False, report=message.report)
        outcome = message.outcome
        if self.standing is Standing.RUNNING:
            self._first_failure, self._missed = now, gang.missed(self.seats)
        casualty = Casualty(
            role=seat.member.role,
            index=seat.member.index,
            exit_code=outcome.exit_code,
            signal=outcome.signal,
            message=outcome.termination,
            lost_at=f"{now - self._first_failure:06.0f}",
        )
        if outcome.ok or verdict(casualty, self.limits.policy).action is Action.IGNORE:
            seat.done = True
            return self._finish(Done()) if self._succeeded() else []
        seat.casualty = None if seat.leaving else casualty
        if self._is_alone(seat) and not seat.leaving and self.standing is Standing.RUNNING:
            return self._judge_alone(seat, casualty, now)
        if outcome.exit_code != ExitCode.PEER_LOST or seat.leaving:
            return self._end_round(outcome.exit_code) if self._is_unexplained else []
        if self.standing is Standing.RUNNING:
            self.standing, self._stop_at = Standing.ENDING, now + WORDS_SECONDS
        return []

    def _end_round(self, exit_code: int | None = None) -> list[Effect]:
        """Have all programs stopped; `exit_code` is that of one that has ended by itself."""
        self.standing, self._stop_at = Standing.ENDING, None
        return gang.stops(self.seats, exit_code)

    def _judge(self, now: float) -> list[Effect]:
        """Every program of the round is gone: say why, and whether there is another."""
        self.standing, self._stop_at = Standing.WAITING, None
        failed = [seat.casualty for seat in self.seats if seat.casualty is not None]
        stalled, self._stalled = self._stalled, None
        for seat in self.seats:
            seat.casualty = None
        if stalled is not None:
            return self._rule(stalled[0], STALLED, failed, now, stacks=stalled[1])
        if not failed:
            return []
        cause = root_cause(failed, self.limits.policy)
        if self._missed is not None and not self._somebody_left and cause.exit_code == ExitCode.PEER_LOST:
            return self._rule(gang.stood_still(self._missed), STALLED, failed, now)
        if self._somebody_left and cause.exit_code in {ExitCode.PEER_LOST, ExitCode.STOPPED_ON_NOTICE}:
            self._follow(failed)
            return []
        others = [casualty for casualty in failed if casualty is not cause]
        return self._rule(cause, verdict(cause, self.limits.policy), others, now)

    def _rule(
        self, cause: Casualty, meaning: Verdict, others: Sequence[Casualty], now: float, stacks: str = ""
    ) -> list[Effect]:
        ruling = self.limits.rule(meaning, None if meaning is STALLED else cause, self.newest_checkpoint)
        self._follow(others)
        self._blame(cause, meaning, ruling, stacks)
        if ruling.final:
            return self._give_up(cause, meaning, ruling)
        self.not_before = max(self.not_before, now + ruling.delay_seconds)
        return []

    def _judge_alone(self, seat: Seat, casualty: Casualty, now: float) -> list[Effect]:
        """Count the failure of a member that is a domain of its own."""
        seat.casualty = None
        meaning = verdict(casualty, self.limits.policy)
        ruling = self.limits.rule(meaning, casualty, self.newest_checkpoint)
        self._blame(casualty, meaning, ruling)
        if ruling.final:
            return self._give_up(casualty, meaning, ruling)
        seat.not_before = now + ruling.delay_seconds
        return []

    def _follow(self, failures: Sequence[Casualty]) -> None:
        """Record failures that followed from another."""
        for casualty in failures:
            self.history.record(casualty, SECONDARY, self.round, self.step)

    def _blame(self, cause: Casualty, meaning: Verdict, ruling: Ruling, stacks: str = "") -> None:
        """Record a root cause."""
        kind = meaning.reason
        self.history.record(cause, kind, self.round, self.step, counted=ruling.counted, root_cause=True, stacks=stacks)

    def _was_away(self, seat: Seat, now: float) -> None:
        """Record that a launcher could not be reached for a while, and is the same."""
        casualty = gang.was_away(seat, now)
        meaning = verdict(casualty)
        ruling = self.limits.rule(meaning, casualty, self.newest_checkpoint)
        self._blame(casualty, meaning, ruling)

    # The end

    def _give_up(self, cause: Casualty, meaning: Verdict, ruling: Ruling) -> list[Effect]:
        code = cause.exit_code if cause.exit_code is not None else int(ExitCode.SOFTWARE)
        end = GangEnd(
            role=cause.role, index=cause.index, round=self.round, reason=ruling.final, restarts=self.limits.restarts
        )
        text = last_words(cause, meaning.reason, ruling.remedy, end, self.seats[0].report)
        return self._finish(GiveUp(exit_code=code, termination=text))

    def _finish(self, last_word: Message) -> list[Effect]:
        self.standing, self._last_word = Standing.OVER, last_word
        return [Send(link, last_word) for link in self._links]

    def _succeeded(self) -> bool:
        return self.standing is Standing.RUNNING and all(seat.done for seat in self.seats if seat.member.decides)

    # Questions

    @property
    def _is_unexplained(self) -> bool:
        """Whether nothing has ended the round yet, or nothing but the loss of a peer."""
        return self.standing is Standing.RUNNING or self._stop_at is not None

    def _is_alone(self, seat: Seat) -> bool:
        return seat.member.role in self._alone

    def _may_start_alone(self, seat: Seat, now: float) -> bool:
        return self._is_alone(seat) and seat.ready and not seat.done and now >= seat.not_before
