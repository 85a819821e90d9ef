"""Polls the replicas of a run for log lines, terminations and progress; publishes them to console and `status.json`."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from tfdist.api.status import Failure, JobPhase
from tfdist.contract import Role
from tfdist.contract_reports import ProgressReport
from tfdist.local import progress
from tfdist.local.console import Console
from tfdist.local.interrupt import Interrupts
from tfdist.local.logs import Tail
from tfdist.local.outcome import Outcome, ReplicaExit
from tfdist.local.plan import GangPlan, Plan
from tfdist.local.processes import Processes
from tfdist.local.replica_plan import ReplicaPlan
from tfdist.local.run_directory import RunDirectory
from tfdist.local.status import RunState, status
from tfdist.render.gang import GangName
from tfdist.render.names import hostname, pod_name
from tfdist.timestamps import rfc3339

_POLL_SECONDS: Final = 0.1
_PROGRESS_SECONDS: Final = 1.0


class Monitor:
    """Starts and stops replicas, and keeps console and `status.json` up to date while it waits."""

    def __init__(
        self, plan: Plan, directory: RunDirectory, console: Console, processes: Processes, interrupts: Interrupts
    ) -> None:
        self._plan, self._directory, self._console, self._processes = plan, directory, console, processes
        self.interrupts = interrupts
        members = [member for gang in plan.gangs.values() for member in gang.gang.members]
        self._members = {hostname(member.role, member.index): member for member in members}
        roles = dict.fromkeys(member.role for member in members)
        self.state = RunState(
            {role: [n for n, member in self._members.items() if member.role is role] for role in roles}
        )
        self.ended: list[ReplicaExit] = []
        """Terminated replicas, in the order of termination."""
        self._unneeded: set[str] = set()
        self._recorded_failures: set[str] = set()
        self._tails: dict[str, Tail] = {}
        self._progress_polled_at = float("-inf")
        self._written: object = None

    @property
    def running(self) -> list[str]:
        """Names of the running replicas."""
        return self._processes.running

    def start(self, replicas: Iterable[ReplicaPlan]) -> None:
        """Start replicas and follow their logs."""
        for replica in replicas:
            self._processes.start(replica)
            self._tails[replica.name] = Tail(self._directory.log(replica.name))

    def until(self, done: Callable[[], bool], *, seconds: float = float("inf"), ignore_signals: bool = False) -> bool:
        """Poll until `done` returns True, for at most `seconds`; return whether it did.

        Raises:
            Interrupted: a signal has arrived; not raised with `ignore_signals`.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._poll()
            if done():
                return True
            if not ignore_signals:
                self.interrupts.check()
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)

    def terminate_all(self) -> None:
        """Send all replicas the signal to stop within their grace periods, without waiting."""
        self._processes.stop(self.running)

    def stop(self, names: Iterable[str], *, seconds: float = float("inf")) -> None:
        """Send replicas the signal to stop, kill those that run after `seconds`, and wait until all have ended."""
        wanted = set(names)
        self._processes.stop(wanted)
        if not self.until(lambda: not wanted & set(self.running), seconds=seconds):
            self.kill(wanted)

    def stop_unneeded(self, names: Iterable[str]) -> None:
        """Stop replicas that are no longer needed; their exit codes are not failures."""
        wanted = set(names)
        self._unneeded |= wanted & set(self.running)
        self.stop(wanted)

    def kill(self, names: Iterable[str]) -> None:
        """Kill replicas and wait until they have ended."""
        wanted = set(names)
        self._processes.kill(wanted)
        self.until(lambda: not wanted & set(self.running), ignore_signals=True)

    def set_phase(self, phase: JobPhase) -> None:
        """Set the phase of the job and write `status.json`."""
        self.state.phase = phase
        self.write_status()

    def root_cause(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the root cause that the launcher determined, if there is a launcher."""
        termination = self._directory.termination_message(outcome.replica) if outcome.replica else None
        if termination is None or termination.gang_end is None:
            return outcome
        end = termination.gang_end
        self.state.restarts = end.restarts
        return replace(outcome, replica=hostname(end.role, end.index), reason=end.reason)

    def record_failure(self, outcome: Outcome, *, root_cause: bool = True) -> None:
        """Add the failure of a replica to the status."""
        if member := self._members.get(outcome.replica):
            failure = Failure(
                time=rfc3339(datetime.now(UTC)),
                attempt=0,
                role=member.role,
                index=member.index,
                pod=pod_name(self._plan.job.metadata.name, member.role, member.index, 0),
                exit_code=outcome.code,
                reason=outcome.reason,
                message=outcome.message,
                counted=True,
                root_cause=root_cause,
            )
            self.state.failures.append(failure)

    def record_evaluation(self, gang: GangPlan) -> None:
        """Add the final result of an evaluating gang to the status."""
        termination = self._directory.termination_message(gang.leader.name)
        if termination is None or termination.evaluation is None:
            return
        self.state.final = termination.evaluation
        if gang.gang.name is GangName.EVALUATOR:
            self.state.latest = termination.evaluation
            self.state.best = termination.best_evaluation or self.state.best

    def saved_step(self, name: str) -> int | None:
        """Return the step of the last checkpoint in a replica's termination message."""
        termination = self._directory.termination_message(name)
        return termination.last_checkpoint.step if termination and termination.last_checkpoint else None

    def write_status(self) -> None:
        """Write `status.json` if it has changed."""
        self.state.running = self.running
        new = status(self.state, datetime.now(UTC))
        if new != self._written:
            self._written = new
            self._directory.write_status(new)

    def _poll(self) -> None:
        ended = self._processes.ended()
        for name, tail in list(self._tails.items()):
            self._console.log(name, list(tail.lines(last=name in ended)))
        for name, code in ended.items():
            self._tails.pop(name).close()
            role = self._members[name].role if name in self._members else Role.WORKER
            self.ended.append(ReplicaExit(name, role, code, self._directory.failure_message(name) if code else ""))
            self.state.codes[name] = 0 if name in self._unneeded else code
        if time.monotonic() >= self._progress_polled_at + _PROGRESS_SECONDS:
            self._progress_polled_at = time.monotonic()
            self._poll_progress()
        if ended:
            self.write_status()

    def _poll_progress(self) -> None:
        """Fetch the progress reports of the running gangs' leaders, and show them."""
        for name, gang in self._plan.gangs.items():
            if gang.leader.name not in self.running:
                continue
            report = progress.fetch(gang.leader.report_port)
            if report is None:
                continue
            if name is GangName.EVALUATOR:
                self.state.latest = report.evaluation or self.state.latest
                self.state.best = report.best_evaluation or self.state.best
            else:
                self.state.report = report
                self._record_launcher_report(report)
        self._console.progress(self.state.phase, self.state.report)
        self.write_status()

    def _record_launcher_report(self, report: ProgressReport) -> None:
        """Add restarts and failures that the launchers of a gang report to the status."""
        gang = report.gang
        if gang is None:
            return
        self.state.restarts = gang.restarts
        for failure in gang.failures:
            if failure.id not in self._recorded_failures:
                self._recorded_failures.add(failure.id)
                pod = pod_name(self._plan.job.metadata.name, failure.role, failure.index, 0)
                fields = failure.model_dump(include=set(Failure.model_fields))
                self.state.failures.append(Failure(**fields, attempt=0, pod=pod))
