"""The launcher: carries out the actions of its state machines, and passes on events to them."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Final

from tfdist.contract import ExitCode, Phase
from tfdist.contract_reports import ProgressReport, RoundFailure
from tfdist_launch.connection import LeaderClient
from tfdist_launch.coordinator import Coordinator
from tfdist_launch.member import (
    Action,
    ConnectToLeader,
    Exit,
    MemberState,
    MemberStateMachine,
    SendToLeader,
    StartProcess,
    StopProcess,
)
from tfdist_launch.messages import (
    ExitResult,
    GangFailed,
    Heartbeat,
    Hello,
    LauncherRejected,
    Message,
    Stacks,
    StacksRequest,
)
from tfdist_launch.report import LeaderReporter, replica_report
from tfdist_launch.settings import LauncherSettings, Options
from tfdist_launch.supervisor import ProcessSupervisor
from tfdist_trainer import environment, log, report_server, termination
from tfdist_trainer.python_command import parse_python_command
from tfdist_trainer.reporter import Reporter

TICK_SECONDS: Final = 0.1
HEARTBEAT_INTERVAL_SECONDS: Final = 1.0
HEARTBEAT_TIMEOUT_SECONDS: Final = 5.0
"""A process that writes heartbeats and has written none for this time is not alive."""
STACKS_TIMEOUT_SECONDS: Final = 2.0
STACKS_POLL_SECONDS: Final = 0.05
STACKS_QUIET_POLLS: Final = 5
"""Polls without a change after which stacks are complete. `faulthandler` writes them in many parts and marks no end,
and a process that waits for a processor pauses among them."""
STANDBY_DELAY_SECONDS: Final = 1.0
"""How long a round trains before the standby process is started, which takes processor time from it."""
FINAL_REPORT_SECONDS: Final = 10.0
"""How long the leader of a gang that has succeeded waits for a request, if a failure has not been reported yet."""


class Launcher:
    """The launcher of one replica."""

    def __init__(self, settings: LauncherSettings, options: Options, environ: Mapping[str, str]) -> None:
        self._settings = settings
        job, launch = settings.job, settings.launch
        self._machine = MemberStateMachine(job.uid, launch.rank, job.attempt, time.time())
        self._supervisor = ProcessSupervisor(options, environ, self._process_exited)
        self._coordinator = Coordinator(settings, launch.gang, self._handle_message) if launch.gang else None
        self._client = LeaderClient(
            launch.leader,
            self._handle_message,
            self._connection_lost,
            token=settings.token,
            on_protocol_mismatch=self._protocol_mismatch,
        )
        self._reporter: Reporter | None = None
        self._failures_reported = asyncio.Event()
        self._report_port = environment.read_report_port(environ)
        self._exit: asyncio.Future[Exit] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_report: ProgressReport | None = None
        self._beats: tuple[int, float] = 0, 0.0
        self._training_since: tuple[int, float] = -1, 0.0
        """The newest round that has trained, and since when."""
        command = parse_python_command(options.command)
        self._has_standby = settings.standby and command is not None and command.is_trainer
        self._standby_requested = -1
        """The newest round in which the standby process was started."""

    async def run(self) -> int:
        """Run this replica and return its exit code."""
        loop = asyncio.get_running_loop()
        self._exit = loop.create_future()
        # By the loop: a handler that interrupts Python code anywhere could call the state machine while it changes.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._termination_requested)
        # Process 1 inherits every orphan of the container.
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        first = replica_report(self._settings.job, 0, None)
        coordinator = self._coordinator
        self._reporter = LeaderReporter(first, loop, coordinator.report) if coordinator else Reporter(first)
        # The report server first: the controller sees this replica while TensorFlow is imported.
        if self._report_port:
            report_server.serve(self._reporter, self._report_port, self._dump_stacks)
        # The leader listens before its own member connects.
        if self._coordinator is not None:
            await self._coordinator.listen(self._settings.port)
        if self._settings.standby and not self._has_standby:
            reason = "only the bundled trainer supports standby processes"
            log.event("no-effect", field="runPolicy.standby", reason=reason)
        # Now, not with the first round: the import takes seconds in which the members connect anyway.
        self._supervisor.start_fork_server()
        self._carry_out(self._machine.start())
        self._background(self._tick())
        exit_ = await self._exit
        # Messages first: the other members need the exit of this one, and this process is gone afterwards.
        await self._shut_down()
        self._supervisor.write_termination_message(exit_.termination)
        self._supervisor.close()
        return exit_.exit_code

    # Events

    def _handle_message(self, message: Message) -> None:
        if isinstance(message, LauncherRejected):
            log.event("rejected", reason=message.reason)
        if isinstance(message, StacksRequest):
            self._background(self._send_stacks(message.round))
        else:
            self._carry_out(self._machine.handle_message(message))

    def _protocol_mismatch(self, reason: str) -> None:
        """Exit as after a configuration error: no restart makes the versions equal."""
        report = replica_report(self._settings.job, 0, None)
        text = termination.compose("UserError", reason, report)
        self._carry_out(
            self._machine.handle_message(GangFailed(exit_code=int(ExitCode.CONFIGURATION), termination=text))
        )

    def _connection_lost(self, lease_expired: bool) -> None:
        # The end of a gang closes all connections, which is not a loss.
        if self._machine.state is not MemberState.OVER:
            log.event("leader-lost", leaseExpired=lease_expired)
        self._carry_out(self._machine.connection_lost(lease_expired=lease_expired))

    def _process_exited(self, number: int, result: ExitResult) -> None:
        if self._machine.state is MemberState.RUNNING:
            log.event("process-exited", round=number, exitCode=result.exit_code, signal=result.signal)
        self._carry_out(self._machine.process_exited(number, result, self._process_report(), self._supervisor.standby))

    def _termination_requested(self) -> None:
        log.event("termination-requested", round=self._machine.round)
        self._carry_out(self._machine.termination_requested())

    def _reap(self) -> None:
        """Reap orphaned processes, which process 1 inherits."""
        while True:
            try:
                status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            # Only the supervisor waits for the fork server: reaped here, its exit code would be lost.
            if status is None or status.si_pid == self._supervisor.fork_server_pid:
                return
            with contextlib.suppress(ChildProcessError):
                os.waitpid(status.si_pid, os.WNOHANG)

    # Actions

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case SendToLeader(message):
                    self._send(message)
                case StartProcess(number, standby, other_port):
                    from_standby = self._supervisor.start(number, standby=standby, other_port=other_port)
                    log.event("round", number=number, standby=from_standby or None)
                case StopProcess(grace, at_once):
                    self._supervisor.terminate(grace, at_once=at_once)
                case ConnectToLeader(hello):
                    self._connect(hello)
                case Exit() if self._exit is not None and not self._exit.done():
                    self._exit.set_result(action)

    def _connect(self, hello: Hello) -> None:
        if self._coordinator is not None:
            self._machine.connection_established()
            # Later, as over a connection: the member's actions are carried out first.
            asyncio.get_running_loop().call_soon(self._coordinator.connect_local, hello)
        else:
            self._background(
                self._client.connect(hello, lambda: self._carry_out(self._machine.connection_established()))
            )

    def _send(self, message: Message) -> None:
        if self._coordinator is not None:
            asyncio.get_running_loop().call_soon(self._coordinator.receive_local, message)
        else:
            self._client.send(message)

    async def _shut_down(self) -> None:
        """Send all queued messages; a leader also waits until its members have disconnected."""
        # Messages to the own leader are calls that are due in the next turn of the loop.
        await asyncio.sleep(0)
        if self._coordinator is not None:
            await asyncio.gather(self._coordinator.close(), self._wait_for_report(self._coordinator.has_succeeded))
        else:
            await self._client.flush()

    async def _wait_for_report(self, succeeded: bool) -> None:
        """Wait until the controller has read a failure shortly before the end: the report ends with this process."""
        # A report that was served before the last failure does not count.
        self._failures_reported.clear()
        if succeeded:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FINAL_REPORT_SECONDS):
                    await self._failures_reported.wait()

    def _are_failures_reported(self, failures: Sequence[RoundFailure]) -> bool:
        """Return whether every failure was in a served report; true also without a report port."""
        served = self._reporter.last_served if self._reporter else None
        served_ids = {failure.id for failure in served.gang.failures} if served and served.gang else set()
        return not self._report_port or all(failure.id in served_ids for failure in failures)

    # The report

    def _process_report(self) -> ProgressReport | None:
        return self._supervisor.heartbeat.report() if self._supervisor.heartbeat else None

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        heartbeat_at = 0.0
        while True:
            current = self._process_report()
            # Between two processes the last progress stays visible.
            self._last_report = current or self._last_report
            report = replica_report(self._settings.job, self._machine.round, current, self._last_report)
            if self._coordinator is not None:
                self._coordinator.tick()
                if self._are_failures_reported(self._coordinator.leader.history.failures):
                    self._failures_reported.set()
            if self._reporter is not None:
                self._reporter.replace(report)
            # Only while a round trains: the standby process takes processor time from it (ADR 17).
            self._prepare_standby(current, loop.time())
            if loop.time() >= heartbeat_at:
                heartbeat_at = loop.time() + HEARTBEAT_INTERVAL_SECONDS
                self._send(self._heartbeat(loop.time()))
            await asyncio.sleep(TICK_SECONDS)

    def _heartbeat(self, now: float) -> Heartbeat:
        if self._machine.state is not MemberState.RUNNING:
            return Heartbeat(alive=False)
        return Heartbeat(alive=self._is_alive(now), report=self._process_report())

    def _prepare_standby(self, report: ProgressReport | None, now: float) -> None:
        """Start the standby process once a round, `STANDBY_DELAY_SECONDS` after the first step with a checkpoint."""
        trains = report is not None and report.phase is Phase.TRAINING and report.last_checkpoint is not None
        if not self._has_standby or not trains or self._machine.state is not MemberState.RUNNING:
            return
        number = self._machine.round
        if self._training_since[0] != number:
            self._training_since = number, now
        elif self._standby_requested < number and now - self._training_since[1] >= STANDBY_DELAY_SECONDS:
            self._standby_requested = number
            self._supervisor.prepare_standby(number + 1)

    def _is_alive(self, now: float) -> bool:
        beats = self._supervisor.heartbeat.beats if self._supervisor.heartbeat else 0
        # A process that has never beaten may be importing, or is not Python: it is not taken for dead.
        if beats != self._beats[0] or not beats:
            self._beats = beats, now
        return now - self._beats[1] < HEARTBEAT_TIMEOUT_SECONDS

    async def _send_stacks(self, number: int) -> None:
        # In a thread: it sleeps, and the loop must keep the lease alive.
        text = await asyncio.to_thread(self._dump_stacks)
        self._send(Stacks(round=number, text=text))

    def _dump_stacks(self) -> str:
        """Return the stacks of the process. It blocks for up to `STACKS_TIMEOUT_SECONDS`: not for the loop's thread."""
        heartbeat = self._supervisor.heartbeat
        if heartbeat is None or not self._supervisor.request_stacks():
            return "the training process cannot dump its stacks\n"
        deadline = time.monotonic() + STACKS_TIMEOUT_SECONDS
        text, quiet_polls = "", 0
        # `faulthandler` marks no end, so the end is a pause.
        while time.monotonic() < deadline and not (text and quiet_polls >= STACKS_QUIET_POLLS):
            time.sleep(STACKS_POLL_SECONDS)
            before, text = text, heartbeat.stacks()
            quiet_polls = quiet_polls + 1 if text == before else 0
        return text or "the training process does not answer: it is stopped, or blocked in a system call\n"

    def _background(self, coroutine: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        # Asyncio keeps no strong reference to a task.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
