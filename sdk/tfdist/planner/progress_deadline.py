"""progressDeadlineSeconds: finds gangs that run without progress, which is a new step, checkpoint or phase."""

from dataclasses import dataclass
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.observed.cadence import cadence_of, from_status, has_begun
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import ProbeResult, StepCadence
from tfdist.observed.pod import PodState
from tfdist.outcome import find_condition
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import ProbeTarget
from tfdist.restarts import stall
from tfdist.restarts.stall import SLOW_PHASE_SECONDS
from tfdist.timestamps import parse_time

LEARNED_MINIMUM_SECONDS: Final = 120.0
"""Minimum of `Auto`, twice the launchers' minimum: polls of the leader may be late, and a restart creates pods
again."""
LAUNCHED_FACTOR: Final = 3.0
"""Under launchers, which apply the deadline themselves, the controller waits this many times longer."""
_NEXT_REPORT_SECONDS: Final = 10.0
"""When a gang whose probe shows progress is reconciled again: by then its leader has been polled."""


@dataclass(frozen=True, slots=True)
class Progressing:
    """The gang makes progress, as far as reports show, or is being probed."""

    progressing: bool = True
    probes: tuple[ProbeTarget, ...] = ()
    probe_id: str = ""
    requeue_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Stalled:
    """The gang has made no progress for `seconds`; `probe_result` names the replica that is behind."""

    seconds: float
    probe_result: ProbeResult


def check_progress(context: PlanContext, state: GangState) -> Progressing | Stalled:
    """Return whether a running gang makes progress.

    A custom program that reports nothing never counts as stalled, under launchers neither, which report that it starts.
    Before a stall has consequences, every replica is probed for its progress.
    """
    cadence = cadence_of(context.view, state)
    # A program of the user need not report: silence from the start proves nothing.
    if cadence is not None and not has_begun(cadence) and not context.runs_trainer(state.gang.leader.role):
        return Progressing(progressing=False)
    # A new controller continues the deadline of the last one, if that saw this attempt.
    if cadence is None:
        stored = state.record.progress
        if stored is not None and stored.attempt == state.record.attempt_of(state.gang.leader.name):
            return _check_after_takeover(context, state, from_status(stored))
        return _check_first_report(context, state)
    deadline = deadline_seconds(context, cadence)
    if deadline is None:
        return Progressing(progressing=cadence.progress_count > 0)
    idle = context.seconds_since(cadence.last_progress_at)
    if idle < deadline:
        return Progressing(progressing=has_begun(cadence), requeue_after_seconds=deadline - idle)
    return _probe_stall(context, state, f"attempt {cadence.attempt} since {cadence.last_progress_at}", idle)


def _check_first_report(context: PlanContext, state: GangState) -> Progressing | Stalled:
    """Return whether a gang that must report has begun to report: the trainer does so within minutes.

    `Auto` has no deadline for it: the network may keep the controller from the reports of a job that trains.

    The time counts from the creation and readiness of the pods in the API server, so a controller restart keeps it, but
    the next controller has no report yet, and polls for a while before it concludes anything.
    """
    setting = context.spec.run_policy.progress_deadline_seconds
    pods_ready = find_condition(context.view.status, ConditionType.PODS_READY)
    # `Auto` applies from the first report on: the network may keep all reports away (ADR 56).
    if setting is None or isinstance(setting, str) or pods_ready is None or pods_ready.status != "True":
        return Progressing(progressing=False)
    if not context.runs_trainer(state.gang.leader.role):
        return Progressing(progressing=False)
    start = max(pods_ready.last_transition_time, *(p.created_at for p in state.pods))
    idle, limit = context.seconds_since(start), LAUNCHED_FACTOR * max(float(setting), SLOW_PHASE_SECONDS)
    remaining = context.remaining_seconds(limit, start)
    if remaining > 0:
        return Progressing(progressing=False, requeue_after_seconds=remaining)
    return _probe_stall(context, state, f"attempt {state.attempt} without a report since {start}", idle)


def _check_after_takeover(context: PlanContext, state: GangState, stored: StepCadence) -> Progressing | Stalled:
    """Return whether a gang reports to this process, after an earlier controller process observed its progress.

    The first report that this process receives continues the stored cadence, so the deadline does not start again.
    Until then the gang has minutes from the first reconcile: the network may admit a new controller pod only after
    seconds, and all gangs would restart at once otherwise.
    """
    deadline = deadline_seconds(context, stored)
    if deadline is None:
        return Progressing(progressing=False)
    start = max(stored.last_progress_at, context.view.runtime.observed_since)
    idle, limit = context.seconds_since(start), LAUNCHED_FACTOR * max(deadline, SLOW_PHASE_SECONDS)
    if idle < limit:
        return Progressing(progressing=False, requeue_after_seconds=limit - idle)
    return _probe_stall(context, state, f"attempt {stored.attempt} without a report since {start}", idle)


def _probe_stall(context: PlanContext, state: GangState, probe_id: str, idle: float) -> Progressing | Stalled:
    """Return the stall of a gang whose replicas have been probed; else probe them."""
    probe_result = context.view.runtime.probe_result
    if probe_result is None or probe_result.probe_id != probe_id:
        running = (p for p in state.pods if p.state is PodState.RUNNING)
        return Progressing(
            progressing=False, probes=tuple(ProbeTarget(p.role, p.index, p.ip) for p in running), probe_id=probe_id
        )
    # The reports were late, not the steps.
    if _has_advanced(context, state, probe_result):
        return Progressing(requeue_after_seconds=_NEXT_REPORT_SECONDS)
    return Stalled(idle, probe_result)


def _has_advanced(context: PlanContext, state: GangState, probe_result: ProbeResult) -> bool:
    """Return whether the leader has completed steps since its last report: the clock may have jumped since then."""
    report, position = context.view.runtime.report, probe_result.positions.get(state.gang.leader.name)
    if report is None or position is None or position.step is None:
        return False
    return report.content.step is not None and position.step > report.content.step


def deadline_seconds(context: PlanContext, cadence: StepCadence) -> float | None:
    """Return after how many seconds without progress a gang is stalled; None for never."""
    setting, report = context.spec.run_policy.progress_deadline_seconds, context.view.runtime.report
    if setting is None:
        return None
    longest = cadence.longest_pause_seconds if cadence.progress_count else _start_seconds(context, cadence)
    pauses = stall.pauses_of([report.content] if report else [], cadence.progress_count, longest)
    seconds = stall.deadline_seconds(setting, pauses, learned_minimum=LEARNED_MINIMUM_SECONDS)
    launched = report is not None and report.content.gang is not None
    return seconds * (LAUNCHED_FACTOR if launched else 1.0)


def _start_seconds(context: PlanContext, cadence: StepCadence) -> float:
    """Return the time from the start of all replicas to their first report: the next one may take as long."""
    pods_ready = find_condition(context.view.status, ConditionType.PODS_READY)
    if pods_ready is None or pods_ready.status != "True":
        return 0.0
    first, start = parse_time(cadence.last_progress_at), parse_time(pods_ready.last_transition_time)
    return max(0.0, (first - start).total_seconds())
