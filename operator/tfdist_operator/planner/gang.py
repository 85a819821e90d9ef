"""Runs one gang towards its success: creates what is missing, waits, restarts, or gives up."""

from typing import Final

from tfdist.api.status import ConditionType
from tfdist.contract import Role
from tfdist.render.gang import GangName
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import CANNOT_START, PodSummary
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.restart import end_of_attempt, stalled
from tfdist_operator.planner.stall import Stall, check_progress
from tfdist_operator.planner.step import Failed, Step, earliest, not_ready
from tfdist_operator.status.conditions import Condition, is_true

CANNOT_CREATE: Final = "CreationRefused"


def run_gang(look: Look, state: GangState) -> Step:
    """Return what to do for a gang that has not succeeded."""
    if state.lost or state.vanished:
        return end_of_attempt(look, state)
    if state.missing:
        return _creation(look, state)
    if not state.all_started:
        return _starting(look, state)
    return _running(look, state)


def _creation(look: Look, state: GangState) -> Step:
    wait = -look.seconds_since(state.record.not_before) if state.record.not_before else 0.0
    if wait > 0:
        conditions = () if state.record.ran else (not_ready("BackOff", f"attempt {state.attempt} waits its turn"),)
        return Step(state, conditions=_of(state, conditions), requeue_after_seconds=wait)
    refusal = look.view.refusal
    condition = not_ready(CANNOT_CREATE, refusal) if refusal else _starts(state)
    return Step(state, create=state.missing, conditions=_of(state, (condition,)))


def _starting(look: Look, state: GangState) -> Step:
    """Wait for the replicas to start, and give up when one has been unable to for too long."""
    pod = state.blocked
    image_error = pod is not None and pod.reason in CANNOT_START
    reason, text = _blocked(look, pod) if pod else ("StartDeadlineExceeded", "not all replicas have started")
    deadline = look.spec.run_policy.start_deadline_seconds
    if deadline is None and image_error:
        deadline = round(look.settings.image_deadline_seconds)
    condition = not_ready(reason, text) if pod else _starts(state)
    if deadline is None:
        return Step(state, conditions=_of(state, (condition,)))
    since = min((p.created_at for p in state.pods if p.created_at), default="")
    left = deadline - look.seconds_since(since) if since else float(deadline)
    if left <= 0:
        return Step(state, failed=Failed(reason, f"{text}; gave up after {deadline} s"))
    return Step(state, conditions=_of(state, (condition,)), requeue_after_seconds=left)


def _blocked(look: Look, pod: PodSummary) -> tuple[str, str]:
    """Return why a replica cannot start: the reason, and words that name the field to mend."""
    reason = "Unschedulable"
    if pod.reason in CANNOT_START:
        reason = "ConfigError" if "Config" in pod.reason else "ImageError"
    who = f"{pod.role}-{pod.index}"
    where = f"{_image_path(look, pod.role)}: {who}" if reason == "ImageError" else who
    return reason, f"{where} cannot start: {pod.reason}: {pod.message or 'no reason given'}"


def _image_path(look: Look, role: Role) -> str:
    """Return the path of the field that names the image of a role's replicas."""
    fields = look.spec.fields_of(role)
    name = Role.WORKER if role is Role.EVALUATION else role
    return f"spec.{name}.image" if fields and fields.image else "spec.image"


def _running(look: Look, state: GangState) -> Step:
    text = f"all {len(state.pods)} replicas run (attempt {state.attempt})"
    conditions = [Condition(ConditionType.PODS_READY, True, "AllReplicasRun", "all replicas run")]
    if state.attempt:
        conditions.append(Condition(ConditionType.RESTARTING, False, "AllReplicasRun", text))
    if state.gang.name is not GangName.TRAINING:
        return Step(state, conditions=_of(state, tuple(conditions)))
    conditions.append(Condition(ConditionType.RUNNING, True, "AllReplicasRun", text))
    found = check_progress(look, state)
    if isinstance(found, Stall):
        return stalled(look, state, found)
    if is_true(look.view.status, ConditionType.STALLED) and found.moving:
        conditions.append(Condition(ConditionType.STALLED, False, "Progress", "steps are completed again"))
    return Step(
        state, conditions=tuple(conditions), ask=found.ask, requeue_after_seconds=earliest([found.look_again_seconds])
    )


def _starts(state: GangState) -> Condition:
    return not_ready(
        "Starting", f"{state.gang.name} starts with {len(state.gang.members)} replicas (attempt {state.attempt})"
    )


def _of(state: GangState, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return the conditions that a gang may set: the evaluator is told of by `Evaluated` alone.

    That an evaluation gang starts is said by the phase, and costs no write of its own.
    """
    if state.gang.name is GangName.EVALUATOR:
        return ()
    if state.gang.name is GangName.EVALUATION:
        return tuple(c for c in conditions if c.reason != "Starting")
    return conditions
