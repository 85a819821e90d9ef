"""The launcher: carries out what its state machines say, and tells them what happens."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Coroutine, Mapping
from typing import Final

from tfdist.contract import Phase
from tfdist.contract_reports import GangReport, ProgressReport
from tfdist_launch.child import Child
from tfdist_launch.coordinator import Coordinator
from tfdist_launch.link import Following
from tfdist_launch.member import (
    Action,
    Greet,
    Leave,
    MemberMachine,
    Spawn,
    State,
    Tell,
    Terminate,
)
from tfdist_launch.messages import Beat, Hello, Message, Outcome, Stacks, WantStacks
from tfdist_launch.python_command import python_program
from tfdist_launch.report import own_report
from tfdist_launch.settings import Options, Place
from tfdist_trainer import environment, log, report_server
from tfdist_trainer.reporter import Reporter

TICK_SECONDS: Final = 0.1
BEAT_SECONDS: Final = 1.0
LIFE_SECONDS: Final = 5.0
"""Without a beat for so long a program that can beat is said not to be alive."""
STACKS_SECONDS: Final = 2.0
STACKS_POLL_SECONDS: Final = 0.05
RESERVE_SECONDS: Final = 1.0
"""How long a round trains before the program of the next is made ready, which takes processor time from it."""
LAST_WORD_SECONDS: Final = 10.0
"""How long a leader whose gang has succeeded waits to be asked once more, where a failure has not been told yet."""


class Launcher:
    """The launcher of one replica."""

    def __init__(self, place: Place, options: Options, environ: Mapping[str, str]) -> None:
        self._place = place
        job = place.job
        self._machine = MemberMachine(job.uid, place.launch.seat, job.attempt, time.time())
        self._child = Child(options, environ, self._ended)
        self._coordinator = Coordinator(place, place.launch.gang, self._heard) if place.launch.gang else None
        self._following = Following(place.launch.leader, self._heard, self._lost)
        self._reporter = Reporter(own_report(job, 0, None))
        self._all_told = asyncio.Event()
        self._report_port = environment.read_report_port(environ)
        self._leaving: asyncio.Future[Leave] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_report: ProgressReport | None = None
        self._beats: tuple[int, float] = 0, 0.0
        self._trains_since: tuple[int, float] = -1, 0.0
        """The newest round that has trained, and since when."""
        program = python_program(options.command)
        self._keeps_reserve = place.standby and program is not None and program.is_trainer
        self._reserved = -1
        """The newest round in which the program of the next one was asked for."""

    async def run(self) -> int:
        """Run this replica and return its exit code."""
        loop = asyncio.get_running_loop()
        self._leaving = loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminated)
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        if self._report_port:
            report_server.serve(self._reporter, self._report_port, self._stacks_from_thread)
        if self._coordinator is not None:
            await self._coordinator.begin(self._place.port)
        if self._place.standby and not self._keeps_reserve:
            log.event("no-effect", field="runPolicy.standby", reason="only the bundled trainer can wait in reserve")
        self._child.warm_up()
        self._carry_out(self._machine.begin())
        self._background(self._tick())
        leave = await self._leaving
        await self._say_goodbye()
        self._child.leave_message(leave.termination)
        self._child.close()
        return leave.exit_code

    # What happens

    def _heard(self, message: Message) -> None:
        if isinstance(message, WantStacks):
            self._background(self._tell_stacks(message.round))
        else:
            self._carry_out(self._machine.heard(message))

    def _lost(self, silent: bool) -> None:
        if self._machine.state is not State.OVER:
            log.event("leader-lost", silent=silent)
        self._carry_out(self._machine.unlinked(silent=silent))

    def _ended(self, number: int, outcome: Outcome) -> None:
        if self._machine.state is State.RUNNING:
            log.event("program-ended", round=number, exitCode=outcome.exit_code, signal=outcome.signal)
        self._carry_out(self._machine.ended(number, outcome, self._program_report(), self._child.standby))

    def _terminated(self) -> None:
        log.event("told-to-stop", round=self._machine.round)
        self._carry_out(self._machine.terminated())

    def _reap(self) -> None:
        """Wait for processes that have lost their parents: process 1 inherits them."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None or found.si_pid == self._child.nursery_pid:
                return
            with contextlib.suppress(ChildProcessError):
                os.waitpid(found.si_pid, os.WNOHANG)

    # What is to be done

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Tell(message):
                    self._tell(message)
                case Spawn(number, standby, other_port):
                    ready = self._child.start(number, standby=standby, other_port=other_port)
                    log.event("round", number=number, standby=ready or None)
                case Terminate(grace, at_once):
                    self._child.terminate(grace, at_once=at_once)
                case Greet(hello):
                    self._greet(hello)
                case Leave() if self._leaving is not None and not self._leaving.done():
                    self._leaving.set_result(action)

    def _greet(self, hello: Hello) -> None:
        if self._coordinator is not None:
            self._machine.linked()
            asyncio.get_running_loop().call_soon(self._coordinator.joined_here, hello)
        else:
            self._background(self._following.greet(hello, lambda: self._carry_out(self._machine.linked())))

    def _tell(self, message: Message) -> None:
        if self._coordinator is not None:
            asyncio.get_running_loop().call_soon(self._coordinator.told_here, message)
        else:
            self._following.send(message)

    async def _say_goodbye(self) -> None:
        """Leave when what was said has been sent; a leader stays until those that it has spoken to are gone."""
        await asyncio.sleep(0)
        if self._coordinator is not None:
            await asyncio.gather(self._coordinator.end(), self._be_asked_once_more(self._coordinator.succeeded))
        else:
            await self._following.flush()

    async def _be_asked_once_more(self, succeeded: bool) -> None:
        """Let the controller hear of a failure shortly before the end: the report goes with this process."""
        self._all_told.clear()
        if succeeded:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_told.wait(), LAST_WORD_SECONDS)

    def _knows_all(self, gang: GangReport) -> bool:
        """Return whether who asks now and then, or will, has been told of every failure; also without a port."""
        told = self._reporter.told
        known = {failure.id for failure in told.gang.failures} if told and told.gang else set()
        return not self._report_port or all(failure.id in known for failure in gang.failures)

    # The report

    def _program_report(self) -> ProgressReport | None:
        return self._child.pulse.report() if self._child.pulse else None

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        beat_at = 0.0
        while True:
            told = self._program_report()
            self._last_report = told or self._last_report
            report = own_report(self._place.job, self._machine.round, told, self._last_report)
            if self._coordinator is not None:
                self._coordinator.tick()
                gang = self._coordinator.report()
                report = report.model_copy(update={"gang": gang})
                if self._knows_all(gang):
                    self._all_told.set()
            self._reporter.replace(report)
            self._reserve(told, loop.time())
            if self._machine.state is State.RUNNING and loop.time() >= beat_at:
                beat_at = loop.time() + BEAT_SECONDS
                self._tell(Beat(alive=self._is_alive(loop.time()), report=self._program_report()))
            elif loop.time() >= beat_at:
                beat_at = loop.time() + BEAT_SECONDS
                self._tell(Beat(alive=False))
            await asyncio.sleep(TICK_SECONDS)

    def _reserve(self, told: ProgressReport | None, now: float) -> None:
        """Have the program of the next round made ready, once in a round, a while after the first steps of this one."""
        trains = told is not None and told.phase is Phase.TRAINING and told.last_checkpoint is not None
        if not self._keeps_reserve or not trains or self._machine.state is not State.RUNNING:
            return
        number = self._machine.round
        if self._trains_since[0] != number:
            self._trains_since = number, now
        elif self._reserved < number and now - self._trains_since[1] >= RESERVE_SECONDS:
            self._reserved = number
            self._child.reserve(number + 1)

    def _is_alive(self, now: float) -> bool:
        beats = self._child.pulse.beats if self._child.pulse else 0
        if beats != self._beats[0] or not beats:
            self._beats = beats, now
        return now - self._beats[1] < LIFE_SECONDS

    async def _tell_stacks(self, number: int) -> None:
        text = await asyncio.to_thread(self._stacks_from_thread)
        self._tell(Stacks(round=number, text=text))

    def _stacks_from_thread(self) -> str:
        """Return where the program's threads are; waits a little, so not for the loop's thread."""
        pulse = self._child.pulse
        if pulse is None or not self._child.ask_stacks():
            return "the program cannot say where its threads are\n"
        deadline = time.monotonic() + STACKS_SECONDS
        text, before = "", None
        while time.monotonic() < deadline and (not text or text != before):
            time.sleep(STACKS_POLL_SECONDS)
            before, text = text, pulse.stacks()
        return text or "the program does not answer: it is stopped, or deep inside a call to the kernel\n"

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
