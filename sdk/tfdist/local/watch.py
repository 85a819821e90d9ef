"""What a run sees of its replicas, look by look: their lines, their ends, their progress; and what it tells of that."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from tfdist.api.status import Failure, JobPhase
from tfdist.contract import Role
from tfdist.contract_reports import ProgressReport
from tfdist.local import progress
from tfdist.local.interrupt import Interrupts
from tfdist.local.logs import Tail
from tfdist.local.outcome import Exit, Outcome
from tfdist.local.plan import GangPlan, Plan
from tfdist.local.process import ReplicaPlan
from tfdist.local.processes import Processes
from tfdist.local.screen import Screen
from tfdist.local.state import State
from tfdist.local.status import Facts, rfc3339, status
from tfdist.render.gang import GangName
from tfdist.render.names import hostname, pod_name

_LOOK_SECONDS: Final = 0.1
_ASK_SECONDS: Final = 1.0


class Watch:
    """Starts and stops replicas, and keeps screen and `status.json` up to date while it waits."""

    def __init__(self, plan: Plan, state: State, screen: Screen, processes: Processes, interrupts: Interrupts) -> None:
        self._plan, self._state, self._screen, self._processes = plan, state, screen, processes
        self.interrupts = interrupts
        members = [member for gang in plan.gangs.values() for member in gang.gang.members]
        self._members = {hostname(member.role, member.index): member for member in members}
        roles = dict.fromkeys(member.role for member in members)
        self.facts = Facts({role: [n for n, member in self._members.items() if member.role is role] for role in roles})
        self.ended: list[Exit] = []
        """Replicas in the order in which they ended."""
        self._dismissed: set[str] = set()
        self._rounds: set[str] = set()
        self._tails: dict[str, Tail] = {}
        self._asked_at = float("-inf")
        self._written: object = None

    @property
    def running(self) -> list[str]:
        """Names of the replicas that run."""
        return self._processes.running

    def start(self, replicas: Iterable[ReplicaPlan]) -> None:
        """Start replicas and follow their logs."""
        for replica in replicas:
            self._processes.start(replica)
            self._tails[replica.name] = Tail(self._state.log(replica.name))

    def until(self, done: Callable[[], bool], *, seconds: float = float("inf"), deaf: bool = False) -> bool:
        """Look until `done`, and return whether it is, at most so many seconds.

        Raises:
            Interrupted: a signal came, unless `deaf`.
        """
        deadline = time.monotonic() + seconds
        while True:
            self._look()
            if done():
                return True
            if not deaf:
                self.interrupts.check()
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_SECONDS)

    def ask_to_stop(self) -> None:
        """Have all replicas stop within their grace periods, and return at once."""
        self._processes.stop(self.running)

    def stop(self, names: Iterable[str], *, seconds: float = float("inf")) -> None:
        """Have replicas stop, kill those that have not after so many seconds, and return when all have ended."""
        wanted = set(names)
        self._processes.stop(wanted)
        if not self.until(lambda: not wanted & set(self.running), seconds=seconds):
            self.kill(wanted)

    def dismiss(self, names: Iterable[str]) -> None:
        """Stop replicas that are not needed any more; however they end now, it is no failure."""
        wanted = set(names)
        self._dismissed |= wanted & set(self.running)
        self.stop(wanted)

    def kill(self, names: Iterable[str]) -> None:
        """Have replicas end at once, and return when they have."""
        wanted = set(names)
        self._processes.kill(wanted)
        self.until(lambda: not wanted & set(self.running), deaf=True)

    def enter(self, phase: JobPhase) -> None:
        """Tell a new phase of the job."""
        self.facts.phase = phase
        self.tell()

    def cause_of(self, outcome: Outcome) -> Outcome:
        """Return the outcome with the replica that its launcher blames, where it has one that gave up."""
        words = self._state.last_words(outcome.replica) if outcome.replica else None
        if words is None or words.gang_end is None:
            return outcome
        end = words.gang_end
        self.facts.restarts = end.restarts
        return replace(outcome, replica=hostname(end.role, end.index), reason=end.reason)

    def failed(self, outcome: Outcome, *, root_cause: bool = True) -> None:
        """Remember the failure of a replica."""
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
            self.facts.failures.append(failure)

    def result_of(self, gang: GangPlan) -> None:
        """Remember what a gang that evaluates has found."""
        words = self._state.last_words(gang.leader.name)
        if words is None or words.evaluation is None:
            return
        self.facts.final = words.evaluation
        if gang.gang.name is GangName.EVALUATOR:
            self.facts.latest, self.facts.best = words.evaluation, words.best_evaluation or self.facts.best

    def saved_step(self, name: str) -> int | None:
        """Return the step of the last checkpoint that a replica told of at its end."""
        words = self._state.last_words(name)
        return words.last_checkpoint.step if words and words.last_checkpoint else None

    def tell(self) -> None:
        """Write `status.json` if it says something new."""
        self.facts.running = self.running
        new = status(self.facts, datetime.now(UTC))
        if new != self._written:
            self._written = new
            self._state.write_status(new)

    def _look(self) -> None:
        ended = self._processes.ended()
        for name, tail in list(self._tails.items()):
            self._screen.log(name, list(tail.lines(last=name in ended)))
        for name, code in ended.items():
            self._tails.pop(name).close()
            role = self._members[name].role if name in self._members else Role.WORKER
            self.ended.append(Exit(name, role, code, self._state.said(name) if code else ""))
            self.facts.codes[name] = 0 if name in self._dismissed else code
        if time.monotonic() >= self._asked_at + _ASK_SECONDS:
            self._asked_at = time.monotonic()
            self._ask()
        if ended:
            self.tell()

    def _ask(self) -> None:
        """Ask those who lead how far they are, and show it."""
        for name, gang in self._plan.gangs.items():
            if gang.leader.name not in self.running:
                continue
            report = progress.ask(gang.leader.report_port)
            if report is None:
                continue
            if name is GangName.EVALUATOR:
                self.facts.latest = report.evaluation or self.facts.latest
                self.facts.best = report.best_evaluation or self.facts.best
            else:
                self.facts.report = report
                self._learn(report)
        self._screen.progress(progress.line(self.facts.phase, self.facts.report))
        self.tell()

    def _learn(self, report: ProgressReport) -> None:
        """Remember what the launchers of a gang have gone through."""
        gang = report.gang
        if gang is None:
            return
        self.facts.restarts = gang.restarts
        for failure in gang.failures:
            if failure.id not in self._rounds:
                self._rounds.add(failure.id)
                pod = pod_name(self._plan.job.metadata.name, failure.role, failure.index, 0)
                fields = failure.model_dump(include=set(Failure.model_fields))
                self.facts.failures.append(Failure(**fields, attempt=0, pod=pod))
