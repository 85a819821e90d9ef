"""The course of a local run: training with the evaluator beside it, then evaluation, as the controller leads a job.

SIGINT and SIGTERM stop the replicas within their grace periods, a second one at once. Whatever happens, no process is
left when `run` returns, and its result is the job's exit code.
"""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from tfdist.api.policies import SuccessPolicy
from tfdist.api.status import JobPhase
from tfdist.api.training import EvaluationSpec
from tfdist.api.v1 import Strategy
from tfdist.contract import Role, Task
from tfdist.contract_reports import EvaluationReport
from tfdist.local import progress
from tfdist.local.interrupt import Interrupted, Interrupts
from tfdist.local.outcome import DEADLINE_EXCEEDED, Outcome, decided, describe
from tfdist.local.plan import GangPlan, Plan
from tfdist.local.processes import Processes
from tfdist.local.screen import Screen
from tfdist.local.state import State
from tfdist.local.watch import Watch
from tfdist.render.gang import GangName
from tfdist.render.names import hostname

_LINGER_SECONDS: Final = 10.0
"""How long workers of a gang that has succeeded may take to end by themselves."""
_BROKEN_SECONDS: Final = 5.0
"""How long the others of a failed gang may take: they have no peer to save a checkpoint with."""
_CAUSE_SECONDS: Final = 5.0
"""How long the failure that made others lose their peer is waited for."""

_PHASES: Final = {
    (True, False): JobPhase.SUCCEEDED,
    (False, False): JobPhase.FAILED,
    (False, True): JobPhase.SUSPENDED,
}
"""How a run ends that succeeded or not, that was interrupted or not."""


def run(plan: Plan, state: State, screen: Screen, inherited: Mapping[str, str]) -> int:
    """Run the job of `plan` to its end and return its exit code: 0, or that of the replica that failed it."""
    started = time.monotonic()
    with Interrupts() as interrupts, Processes(state, inherited) as processes:
        course = _Course(plan, Watch(plan, state, screen, processes, interrupts), screen)
        try:
            outcome = course.outcome()
        except Interrupted as interrupted:
            outcome = course.interrupted(interrupted)
        processes.close()
        course.end(outcome, time.monotonic() - started)
    return outcome.code


class _Course:
    """The stages of one run."""

    def __init__(self, plan: Plan, watch: Watch, screen: Screen) -> None:
        self._plan, self._watch, self._screen = plan, watch, screen
        self._job = plan.job
        limit = plan.job.spec.run_policy.active_deadline_seconds
        self._deadline = time.monotonic() + (float("inf") if limit is None else limit)

    def outcome(self) -> Outcome:
        """Go through all stages and return how the job ended; replicas that it leaves running are not needed."""
        self._watch.facts.started = datetime.now(UTC)
        if self._plan.fetch is not None:
            self._watch.start([self._plan.fetch])
            self._watch.until(lambda: not self._watch.running)
            fetched = self._watch.ended[-1]
            if fetched.exit_code:
                return Outcome(fetched.exit_code, fetched.name, "UserError", fetched.message)
        training = self._plan.gangs.get(GangName.TRAINING)
        if training is not None:
            outcome = self._train(training)
            if not outcome.succeeded:
                return outcome
        return self._evaluate()

    def interrupted(self, interrupted: Interrupted) -> Outcome:
        """Stop all replicas, at once if a second signal comes, and return how the run ended."""
        watch, heard = self._watch, self._watch.interrupts.count
        grace = max(replica.grace_seconds for gang in self._plan.gangs.values() for replica in gang.replicas)
        if watch.running:
            again = f"a second {interrupted} kills them"
            self._screen.say(f"stopping {', '.join(watch.running)}: they may save for {grace:.0f} s; {again}")
        watch.ask_to_stop()
        watch.until(lambda: not watch.running or watch.interrupts.count > heard, deaf=True)
        watch.kill(watch.running)
        return Outcome(interrupted.code, reason="Interrupted", message=f"stopped by {interrupted}", interrupted=True)

    def end(self, outcome: Outcome, seconds: float) -> None:
        """Tell how the job ended, on the screen and in `status.json`."""
        facts = self._watch.facts
        facts.ended, facts.reason, facts.message = datetime.now(UTC), outcome.reason, describe(outcome)
        self._watch.enter(_PHASES[outcome.succeeded, outcome.interrupted])
        self._screen.end()
        if facts.evaluation_problem:
            self._screen.say(f"Evaluation failed: {facts.evaluation_problem}")
        if outcome.succeeded:
            self._screen.say(f"Succeeded in {progress.duration(seconds)}{_result(facts.final or facts.latest)}")
        elif outcome.interrupted:
            self._screen.say(f"After {progress.duration(seconds)} {facts.message}{self._saved()}")
        else:
            self._screen.say(f"Failed after {progress.duration(seconds)}: {facts.message}")

    def _saved(self) -> str:
        """Return what the next run begins from, to be put behind what stopped this one."""
        training = self._plan.gangs.get(GangName.TRAINING)
        step = self._watch.saved_step(training.leader.name) if training else None
        return "" if step is None else f"; the last checkpoint is of step {step}"

    def _train(self, gang: GangPlan) -> Outcome:
        """Run the gang that trains, beside it the evaluator, and return how training ended."""
        watch, beside = self._watch, self._plan.gangs.get(GangName.EVALUATOR)
        watch.enter(JobPhase.STARTING)
        watch.start([*gang.replicas, *(beside.replicas if beside else ())])
        watch.enter(JobPhase.RUNNING)
        outcome = self._decided(gang, self._job.spec.success_policy, self._deadline)
        if not outcome.succeeded:
            watch.failed(outcome)
            self._screen.say(f"{describe(outcome)}; stopping the others" if watch.running else describe(outcome))
            watch.stop(watch.running, seconds=_BROKEN_SECONDS)
            return outcome
        self._release(gang)
        return outcome

    def _release(self, gang: GangPlan) -> None:
        """Let the members of a gang that has succeeded end, and stop those that only serve others."""
        serve = {Role.PS} | ({Role.WORKER} if self._job.spec.strategy is Strategy.PARAMETER_SERVER else set())
        members = [(each.role, each.index) for each in gang.gang.members]
        self._watch.dismiss(hostname(role, index) for role, index in members if role in serve)
        others = {hostname(role, index) for role, index in members if role not in serve}
        self._watch.until(lambda: not others & set(self._watch.running), seconds=_LINGER_SECONDS)
        self._watch.dismiss(others)

    def _evaluate(self) -> Outcome:
        """Wait for the evaluator, run the gang that evaluates, and return how the job ended."""
        watch, spec = self._watch, self._job.spec.evaluation or EvaluationSpec()
        gangs = [gang for name, gang in self._plan.gangs.items() if name is not GangName.TRAINING]
        if gangs:
            watch.enter(JobPhase.EVALUATING)
        alone = self._job.spec.task is Task.EVALUATE
        limit = float("inf") if alone else time.monotonic() + spec.deadline_seconds
        for gang in gangs:
            if gang.gang.name is GangName.EVALUATION:
                watch.start(gang.replicas)
            outcome = self._decided(gang, SuccessPolicy.CHIEF, min(limit, self._deadline))
            if outcome.succeeded:
                self._release(gang)
                watch.result_of(gang)
                continue
            watch.failed(outcome, root_cause=alone)
            watch.stop([replica.name for replica in gang.replicas], seconds=_BROKEN_SECONDS)
            watch.facts.evaluation_problem = describe(outcome)
            if alone or spec.on_failure == "FailJob":
                return outcome
        return Outcome(0)

    def _decided(self, gang: GangPlan, policy: SuccessPolicy, deadline: float) -> Outcome:
        """Wait until a gang has ended one way or the other, or its time is over."""
        rules, ended = self._job.spec.failure_policy, self._watch.ended

        def outcome(*, waited_long: bool) -> Outcome | None:
            return decided(gang.gang, policy, rules, ended, waited_long=waited_long)

        def something() -> bool:
            return outcome(waited_long=True) is not None

        if self._watch.until(something, seconds=deadline - time.monotonic()):
            # a replica that lost its peer may be seen before the peer that was lost
            self._watch.until(lambda: outcome(waited_long=False) is not None, seconds=_CAUSE_SECONDS)
        late = "not finished within " + (
            "runPolicy.activeDeadlineSeconds" if deadline == self._deadline else "evaluation.deadlineSeconds"
        )
        found = outcome(waited_long=True)
        return (
            self._watch.cause_of(found)
            if found
            else Outcome(DEADLINE_EXCEEDED, reason="DeadlineExceeded", message=late)
        )


def _result(report: EvaluationReport | None) -> str:
    """Return what evaluation found, to be put behind `Succeeded`."""
    if report is None:
        return ""
    found = progress.metrics(report.metrics, digits=4)
    return f". Evaluation of step {report.step}: {found} over {report.examples:,} examples"
