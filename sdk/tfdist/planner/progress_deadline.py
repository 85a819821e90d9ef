"""progressDeadlineSeconds: finds gangs that run without progress, which is a new step, checkpoint or phase."""

from dataclasses import dataclass
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.contract import Phase
from tfdist.observed.cadence import cadence_of, from_status
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import ProbeResult, StepCadence
from tfdist.observed.pod import PodState
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import ProbeTarget
from tfdist.render.template import role_template, runs_bundled_trainer
from tfdist.status.conditions import find

LEARNED_MOVES: Final = 5
"""Progress changes that `Auto` needs before it applies a deadline."""
LEARNED_FACTOR: Final = 10.0
LEARNED_LEAST_SECONDS: Final = 120.0
LAUNCHED_FACTOR: Final = 3.0
_START_SECONDS: Final = 300.0
_STARTING: Final = frozenset({Phase.STARTING, Phase.RENDEZVOUS, Phase.COMPILING})


@dataclass(frozen=True, slots=True)
class Progressing:
    """The gang makes progress as far as is known, or is being probed."""

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

    A custom program that reports nothing never counts as stalled. Before a stall has consequences, every replica is
    probed for its progress.
    """
    cadence = cadence_of(context.view, state)
    if cadence is None:
        stored = state.record.progress
        if stored is not None and stored.attempt == state.record.attempt_of(state.gang.leader):
            return _after_a_takeover(context, state, from_status(stored))
        return _before_the_first_report(context, state)
    deadline = deadline_seconds(context, cadence)
    if deadline is None:
        return Progressing(progressing=cadence.progress_count > 0)
    idle = context.seconds_since(cadence.last_progress_at)
    if idle < deadline:
        return Progressing(requeue_after_seconds=deadline - idle)
    return _probed(context, state, f"attempt {cadence.attempt} since {cadence.last_progress_at}", idle)


def _before_the_first_report(context: PlanContext, state: GangState) -> Progressing | Stalled:
    """Return whether a gang that must report has begun to: the bundled trainer does within minutes.

    The time counts from the creation and readiness of the pods in the API server, so a controller restart keeps it.
    """
    wanted = context.spec.run_policy.progress_deadline_seconds
    ready = find(context.view.status, ConditionType.PODS_READY)
    bundled = runs_bundled_trainer(role_template(context.job, state.gang.leader.role))
    own = not context.spec.runs_program or not bundled
    if own or wanted is None or isinstance(wanted, str) or ready is None or ready["status"] != "True":
        return Progressing(progressing=False)
    since = max(ready["lastTransitionTime"], *(p.created_at for p in state.pods))
    idle, limit = context.seconds_since(since), LAUNCHED_FACTOR * max(float(wanted), _START_SECONDS)
    if idle < limit:
        return Progressing(progressing=False, requeue_after_seconds=limit - idle)
    return _probed(context, state, f"attempt {state.attempt} without a report since {since}", idle)


def _after_a_takeover(context: PlanContext, state: GangState, stored: StepCadence) -> Progressing | Stalled:
    """Return whether a gang that an earlier process saw progress reports to this one.

    The first report that this process receives continues the stored cadence, so the deadline does not start again.
    Until then the gang has minutes from the first reconcile: the network may admit a new controller pod only after
    seconds, and all gangs would restart at once otherwise.
    """
    deadline = deadline_seconds(context, stored)
    if deadline is None:
        return Progressing(progressing=False)
    since = max(stored.last_progress_at, context.view.observed_since)
    idle, limit = context.seconds_since(since), LAUNCHED_FACTOR * max(deadline, _START_SECONDS)
    if idle < limit:
        return Progressing(progressing=False, requeue_after_seconds=limit - idle)
    return _probed(context, state, f"attempt {stored.attempt} without a report since {since}", idle)


def _probed(context: PlanContext, state: GangState, probe_id: str, idle: float) -> Progressing | Stalled:
    """Return the stall of a gang whose replicas have been probed; else probe them."""
    probe_result = context.view.probe_result
    if probe_result is None or probe_result.probe_id != probe_id:
        running = (p for p in state.pods if p.state is PodState.RUNNING)
        return Progressing(
            progressing=False, probes=tuple(ProbeTarget(p.role, p.index, p.ip) for p in running), probe_id=probe_id
        )
    return Stalled(idle, probe_result)


def deadline_seconds(context: PlanContext, cadence: StepCadence) -> float | None:
    """Return after how many seconds without progress a gang is stalled; None for never.

    A number applies to steps: before the first step, rendezvous and compilation have five minutes at least. `Auto` is
    ten times the longest pause between two progress changes of this attempt, at least two minutes: by then the pauses
    include compilation, checkpoints and evaluation. Launchers apply the same deadline; the controller waits longer, and
    acts where they fail to.
    """
    wanted = context.spec.run_policy.progress_deadline_seconds
    if wanted is None:
        return None
    if wanted == "Auto" and cadence.progress_count < LEARNED_MOVES:
        return None
    learned = max(LEARNED_LEAST_SECONDS, LEARNED_FACTOR * cadence.longest_pause_seconds)
    patience = LAUNCHED_FACTOR if context.view.report and context.view.report.content.gang else 1.0
    if wanted == "Auto":
        return patience * learned
    return patience * max(float(wanted), _START_SECONDS if _is_starting(context) else 0.0)


def _is_starting(context: PlanContext) -> bool:
    report = context.view.report
    return report is not None and report.content.phase in _STARTING
