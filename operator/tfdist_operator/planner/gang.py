"""Runs one gang towards its success: creates what is missing, waits, restarts, or gives up."""

from dataclasses import replace
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.contract import Role
from tfdist.render.gang import GangName
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import CANNOT_START, PodState, PodSummary
from tfdist_operator.planner import retell, rounds
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Event
from tfdist_operator.planner.restart import end_of_attempt, resized, stalled
from tfdist_operator.planner.stall import Stall, check_progress
from tfdist_operator.planner.step import Failed, Step, earliest, not_ready
from tfdist_operator.status.conditions import Condition, find, is_true
from tfdist_operator.status.phase import CANNOT_CREATE, CONFIG_ERROR, IMAGE_ERROR, PROBLEMS, UNSCHEDULABLE, has_trained

_STARTING: Final = "Starting"


def run_gang(look: Look, state: GangState) -> Step:
    """Return what to do for a gang that has not succeeded."""
    if state.gang.name is not GangName.TRAINING:
        return _run(look, state)
    told = rounds.news(look, state)
    step = _run(look, replace(state, record=told.record))
    return replace(step, failures=(*told.failures, *step.failures), events=(*told.events, *step.events))


def _run(look: Look, state: GangState) -> Step:
    sizes = _other_sizes(look, state)
    if sizes:
        return resized(look, state, sizes)
    if state.lost or state.vanished:
        return end_of_attempt(look, state)
    if state.missing:
        return _creation(look, state)
    if not state.all_started:
        return _starting(look, state)
    return _running(look, state)


def _other_sizes(look: Look, state: GangState) -> str:
    """Return which sizes the gang has now that differ from those that its pods were told of; "" where none does.

    It can be resized while it is suspended only, but that may have come and gone between two looks.
    """
    known = look.view.status.get("replicas", {})
    old = {role: known[role]["desired"] for role in state.gang.sizes() if role in known}
    changed = {role: n for role, n in state.gang.sizes().items() if n != old.get(role, n)}
    return ", ".join(f"{role}: {n} replicas instead of {old[role]}" for role, n in changed.items() if state.pods)


def _creation(look: Look, state: GangState) -> Step:
    """Create what is missing, once its time has come."""
    wait = -look.seconds_since(state.record.not_before) if state.record.not_before else 0.0
    if wait > 0:
        return Step(state, events=_untold(look, state), requeue_after_seconds=wait)
    text = f"a replica of the {state.gang.name} cannot be created: {look.view.refusal}"
    step = _awaiting(look, state, Failed(CANNOT_CREATE, text) if look.view.refusal else None)
    return replace(step, create=state.missing)


def _starting(look: Look, state: GangState) -> Step:
    """Wait for the replicas to start."""
    return _awaiting(look, state, _problem(look, state.blocked) if state.blocked else None)


def _awaiting(look: Look, state: GangState, problem: Failed | None) -> Step:
    """Wait for replicas, and give up when one has not started for too long; `problem` says why it cannot."""
    condition = not_ready(problem.reason, problem.message) if problem else _starts(state)
    step = Step(state, conditions=_of(look, state, (condition,)), events=_untold(look, state))
    limit, field = look.spec.run_policy.start_deadline_seconds, " (runPolicy.startDeadlineSeconds)"
    if limit is None and problem and problem.reason in {IMAGE_ERROR, CONFIG_ERROR}:
        limit, field = round(look.settings.image_deadline_seconds), ""
    if limit is None:
        return step
    since = _waiting_since(look, state)
    left = limit - look.seconds_since(since) if since else float(limit)
    if left > 0:
        return replace(step, requeue_after_seconds=left)
    known = problem or Failed("StartDeadlineExceeded", f"not all replicas of the {state.gang.name} have started")
    return replace(step, failed=Failed(known.reason, f"{known.message}; gave up after {limit} s{field}"))


def _untold(look: Look, state: GangState) -> tuple[Event, ...]:
    return retell.restarting(look.view, state.gang.name, state.attempt, look.now)


def _waiting_since(look: Look, state: GangState) -> str:
    """Return since when the gang waits for a replica to start: those that run already are not what it waits for."""
    pending = [p.created_at for p in state.pods if p.state is PodState.PENDING and p.created_at]
    newest = [p.created_at for p in state.pods if p.attempt == state.attempt and p.created_at]
    if pending or newest:
        return min(pending or newest)
    ready = find(look.view.status, ConditionType.PODS_READY)
    said = str(ready["lastTransitionTime"]) if ready and ready["status"] == "False" else ""
    return max(said, state.record.not_before, str(look.view.status.get("activeSince", "")))


def _problem(look: Look, pod: PodSummary) -> Failed:
    """Return why a replica cannot start: the reason, and words that name the field to mend."""
    reason = UNSCHEDULABLE
    if pod.reason in CANNOT_START:
        reason = CONFIG_ERROR if "Config" in pod.reason else IMAGE_ERROR
    who = f"{pod.role}-{pod.index}"
    where = f"{_image_path(look, pod.role)}: {who}" if reason == IMAGE_ERROR else who
    return Failed(reason, f"{where} cannot start: {pod.reason}: {pod.message or 'no reason given'}")


def _image_path(look: Look, role: Role) -> str:
    """Return the path of the field that names the image of a role's replicas."""
    fields = look.spec.fields_of(role)
    name = Role.WORKER if role is Role.EVALUATION else role
    return f"spec.{name}.image" if fields and fields.image else "spec.image"


def _running(look: Look, state: GangState) -> Step:
    waits = rounds.waits(look, state)
    text = f"all {len(state.gang.members)} replicas run (attempt {state.attempt}){_begins(waits)}"
    text += _changed_since(look, state)
    conditions = [Condition(ConditionType.PODS_READY, True, "AllReplicasRun", "all replicas run")]
    if waits and waits.restart:
        restarts = f"the launchers restart the gang in place, and wait: {waits.text}"
        conditions.append(Condition(ConditionType.RESTARTING, True, "InPlace", restarts))
    elif state.attempt or is_true(look.view.status, ConditionType.RESTARTING):
        conditions.append(Condition(ConditionType.RESTARTING, False, "AllReplicasRun", text))
    if state.gang.name is not GangName.TRAINING:
        return Step(state, conditions=_of(look, state, tuple(conditions)), events=_untold(look, state))
    conditions.append(Condition(ConditionType.RUNNING, True, "AllReplicasRun", text))
    found = check_progress(look, state)
    if isinstance(found, Stall):
        return stalled(look, state, found)
    if is_true(look.view.status, ConditionType.STALLED) and found.moving:
        conditions.append(Condition(ConditionType.STALLED, False, "Progress", "steps are completed again"))
    return Step(
        state,
        conditions=tuple(conditions),
        ask=found.ask,
        ask_about=found.ask_about,
        events=_untold(look, state),
        requeue_after_seconds=earliest([found.look_again_seconds]),
    )


def _begins(waits: rounds.Waits | None) -> str:
    """Return what is to be said of launchers that meet for the first time; "" where they do not."""
    return f"; their launchers wait: {waits.text}" if waits and not waits.restart else ""


def _changed_since(look: Look, state: GangState) -> str:
    """Return what is to be said of a specification that was changed while its pods run; "" where it was not."""
    if state.record.template in {"", look.view.template}:
        return ""
    return "; its pods are as they were before the last change: suspend and resume it, or the next attempt takes it"


def _starts(state: GangState) -> Condition:
    text = f"{state.gang.name} starts with {len(state.gang.members)} replicas (attempt {state.attempt})"
    return not_ready(_STARTING, text)


def _of(look: Look, state: GangState, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return the conditions that a gang may set: beside training, an evaluator tells of what keeps it from starting.

    That an evaluation gang starts is said by the phase, and costs no write of its own.
    """
    if state.gang.name is GangName.TRAINING:
        return conditions
    if state.gang.name is GangName.EVALUATOR and not has_trained(look.view.status):
        return tuple(c for c in conditions if c.reason in PROBLEMS)
    return tuple(c for c in conditions if c.reason != _STARTING)
