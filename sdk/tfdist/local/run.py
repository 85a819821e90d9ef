"""Life cycle of a local run: training with a concurrent evaluator, then evaluation, as in the controller.

SIGINT and SIGTERM stop the replicas within their grace periods, a second signal kills them. No process remains when
`run` returns, in any case; its result is the job's exit code.
"""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from tfdist.api.policies import SuccessPolicy
from tfdist.api.status import JobPhase
from tfdist.api.training import EVALUATOR_DEADLINE_SECONDS, EvaluationSpec
from tfdist.api.v1 import Strategy
from tfdist.contract import Role, Task
from tfdist.contract_reports import EvaluationReport
from tfdist.local import progress
from tfdist.local.console import Console
from tfdist.local.interrupt import Interrupted, Interrupts
from tfdist.local.monitor import Monitor
from tfdist.local.outcome import DEADLINE_EXCEEDED, Outcome, describe, gang_outcome
from tfdist.local.plan import GangPlan, Plan
from tfdist.local.processes import Processes
from tfdist.local.run_directory import RunDirectory
from tfdist.progress import duration
from tfdist.render.gang import GangName
from tfdist.render.names import hostname

_LINGER_SECONDS: Final = 10.0
"""Time for the workers of a succeeded gang to exit by themselves."""
_BROKEN_SECONDS: Final = 5.0
"""Time for the other replicas of a failed gang to stop: without their peer they cannot save a checkpoint."""
_CAUSE_SECONDS: Final = 5.0
"""Time to wait for the root cause after a replica reported a lost peer."""

_PHASES: Final = {
    (True, False): JobPhase.SUCCEEDED,
    (False, False): JobPhase.FAILED,
    (False, True): JobPhase.SUSPENDED,
}
"""Final phase by (succeeded, interrupted)."""


def run(plan: Plan, directory: RunDirectory, console: Console, inherited: Mapping[str, str]) -> int:
    """Run the job of `plan` to its end and return its exit code: 0, or that of the replica that caused its failure."""
    started = time.monotonic()
    with Interrupts() as interrupts, Processes(directory, inherited) as processes:
        local_run = LocalRun(plan, Monitor(plan, directory, console, processes, interrupts), console)
        try:
            outcome = local_run.execute()
        except Interrupted as interrupted:
            outcome = local_run.interrupt(interrupted)
        processes.close()
        local_run.report(outcome, time.monotonic() - started)
    return outcome.code


class LocalRun:
    """Stages of one run."""

    def __init__(self, plan: Plan, monitor: Monitor, console: Console) -> None:
        self._plan, self._monitor, self._console = plan, monitor, console
        self._job = plan.job
        limit = plan.job.spec.run_policy.active_deadline_seconds
        self._deadline = time.monotonic() + (float("inf") if limit is None else limit)

    def execute(self) -> Outcome:
        """Execute all stages and return the job's outcome; replicas that still run are no longer needed."""
        self._monitor.state.started = datetime.now(UTC)
        if self._plan.fetch is not None:
            self._monitor.start([self._plan.fetch])
            self._monitor.until(lambda: not self._monitor.running)
            fetched = self._monitor.ended[-1]
            if fetched.exit_code:
                return Outcome(fetched.exit_code, fetched.name, "UserError", fetched.message)
        training = self._plan.gangs.get(GangName.TRAINING)
        if training is not None:
            outcome = self._train(training)
            if not outcome.succeeded:
                return outcome
        return self._evaluate()

    def interrupt(self, interrupted: Interrupted) -> Outcome:
        """Stop all replicas, kill them at a second signal, and return the outcome."""
        monitor, received = self._monitor, self._monitor.interrupts.count
        grace = max(replica.grace_seconds for gang in self._plan.gangs.values() for replica in gang.replicas)
        if monitor.running:
            again = f"a second {interrupted} kills them"
            self._console.message(f"stopping {', '.join(monitor.running)}: they may save for {grace:.0f} s; {again}")
        monitor.terminate_all()
        monitor.until(lambda: not monitor.running or monitor.interrupts.count > received, ignore_signals=True)
        monitor.kill(monitor.running)
        return Outcome(interrupted.code, reason="Interrupted", message=f"stopped by {interrupted}", interrupted=True)

    def report(self, outcome: Outcome, seconds: float) -> None:
        """Write the outcome to the console and to `status.json`."""
        state = self._monitor.state
        state.ended, state.reason, state.message = datetime.now(UTC), outcome.reason, describe(outcome)
        self._monitor.set_phase(_PHASES[outcome.succeeded, outcome.interrupted])
        self._console.close()
        if state.evaluation_problem:
            self._console.message(f"Evaluation failed: {state.evaluation_problem}")
        if outcome.succeeded:
            self._console.message(f"Succeeded in {duration(seconds)}{_result(state.final or state.latest)}")
        elif outcome.interrupted:
            self._console.message(f"After {duration(seconds)} {state.message}{self._saved()}")
        else:
            self._console.message(f"Failed after {duration(seconds)}: {state.message}")

    def _saved(self) -> str:
        """Return the checkpoint from which the next run resumes, as the end of a sentence."""
        training = self._plan.gangs.get(GangName.TRAINING)
        step = self._monitor.saved_step(training.leader.name) if training else None
        return "" if step is None else f"; the last checkpoint is of step {step}"

    def _train(self, gang: GangPlan) -> Outcome:
        """Run the training gang, concurrently the evaluator, and return the outcome of training."""
        monitor, evaluator = self._monitor, self._plan.gangs.get(GangName.EVALUATOR)
        monitor.set_phase(JobPhase.STARTING)
        monitor.start([*gang.replicas, *(evaluator.replicas if evaluator else ())])
        monitor.set_phase(JobPhase.RUNNING)
        outcome = self._wait_for_gang(gang, self._job.spec.success_policy, self._deadline)
        if not outcome.succeeded:
            monitor.record_failure(outcome)
            self._console.message(f"{describe(outcome)}; stopping the others" if monitor.running else describe(outcome))
            monitor.stop(monitor.running, seconds=_BROKEN_SECONDS)
            return outcome
        self._release(gang)
        return outcome

    def _release(self, gang: GangPlan) -> None:
        """Wait for the members of a succeeded gang to exit; stop those that only serve others."""
        serve = {Role.PS} | ({Role.WORKER} if self._job.spec.strategy is Strategy.PARAMETER_SERVER else set())
        members = [(each.role, each.index) for each in gang.gang.members]
        self._monitor.stop_unneeded(hostname(role, index) for role, index in members if role in serve)
        others = {hostname(role, index) for role, index in members if role not in serve}
        self._monitor.until(lambda: not others & set(self._monitor.running), seconds=_LINGER_SECONDS)
        self._monitor.stop_unneeded(others)

    def _evaluate(self) -> Outcome:
        """Wait for the evaluator, run the evaluation gang, and return the job's outcome."""
        monitor, spec = self._monitor, self._job.spec.evaluation or EvaluationSpec()
        gangs = [gang for name, gang in self._plan.gangs.items() if name is not GangName.TRAINING]
        if gangs:
            monitor.set_phase(JobPhase.EVALUATING)
        alone = self._job.spec.task is Task.EVALUATE
        begun = time.monotonic()
        for gang in gangs:
            if gang.gang.name is GangName.EVALUATION:
                monitor.start(gang.replicas)
            allowed = spec.deadline_seconds or (
                EVALUATOR_DEADLINE_SECONDS if gang.gang.name is GangName.EVALUATOR else math.inf
            )
            limit = math.inf if alone else begun + allowed
            outcome = self._wait_for_gang(gang, SuccessPolicy.CHIEF, min(limit, self._deadline))
            if outcome.succeeded:
                self._release(gang)
                monitor.record_evaluation(gang)
                continue
            monitor.record_failure(outcome, root_cause=alone)
            monitor.stop([replica.name for replica in gang.replicas], seconds=_BROKEN_SECONDS)
            monitor.state.evaluation_problem = describe(outcome)
            if alone or spec.on_failure == "FailJob":
                return outcome
        return Outcome(0)

    def _wait_for_gang(self, gang: GangPlan, policy: SuccessPolicy, deadline: float) -> Outcome:
        """Wait until a gang has succeeded or failed, or its deadline has passed."""
        rules, ended = self._job.spec.failure_policy, self._monitor.ended

        def outcome(*, peer_grace_over: bool) -> Outcome | None:
            return gang_outcome(gang.gang, policy, rules, ended, peer_grace_over=peer_grace_over)

        def has_ended() -> bool:
            return outcome(peer_grace_over=True) is not None

        if self._monitor.until(has_ended, seconds=deadline - time.monotonic()):
            # the failure of a replica that lost its peer may be observed before that of the peer
            self._monitor.until(lambda: outcome(peer_grace_over=False) is not None, seconds=_CAUSE_SECONDS)
        late = "not finished within " + (
            "runPolicy.activeDeadlineSeconds" if deadline == self._deadline else "evaluation.deadlineSeconds"
        )
        found = outcome(peer_grace_over=True)
        return (
            self._monitor.root_cause(found)
            if found
            else Outcome(DEADLINE_EXCEEDED, reason="DeadlineExceeded", message=late)
        )


def _result(report: EvaluationReport | None) -> str:
    """Return the evaluation result as the end of a sentence."""
    if report is None:
        return ""
    found = progress.metrics(report.metrics, digits=4)
    return f". Evaluation of step {report.step}: {found} over {report.examples:,} examples"
