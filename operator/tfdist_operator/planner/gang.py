"""Runs one gang to its success: creates what is missing, waits, restarts it as a whole, or gives up.

A gang is one restart domain: the failure of any member ends the attempt, and the next attempt gets new pods at
once under new names, whatever becomes of the old ones.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tfdist.api.status import ConditionType
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.gang import Gang, GangName
from tfdist_operator.observed.gang import GangState, gang_state
from tfdist_operator.observed.pod import CANNOT_START, PodSummary
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner.plan import Event, Settings
from tfdist_operator.policy.backoff import restart_delay_seconds
from tfdist_operator.policy.exit_reason import DISRUPTION, Action, Verdict, root_cause, verdict
from tfdist_operator.policy.words import describe
from tfdist_operator.status.clock import parse_time, rfc3339
from tfdist_operator.status.conditions import Condition


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a gang is given up."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at a running gang results in. `state` is that of the attempt to go on with."""

    state: GangState
    create: bool = False
    conditions: tuple[Condition, ...] = ()
    failures: tuple[dict[str, Any], ...] = ()
    restarts: dict[str, int] = field(default_factory=dict)
    """The new `status.restarts`, where it changed."""
    failed: Failed | None = None
    events: tuple[Event, ...] = ()
    requeue_after_seconds: float | None = None


CANNOT_CREATE: Final = "CreationRefused"

_READY: Final = Condition(ConditionType.PODS_READY, True, "AllReplicasRun", "all replicas run")


def run_gang(view: JobView, job: TFDistJob, state: GangState, *, ran: bool, now: datetime, settings: Settings) -> Step:
    """Return what to do for a gang that has not succeeded.

    Args:
        view: the look at the job.
        job: its specification.
        state: the gang in its current attempt.
        ran: whether the whole gang is known to have run in this attempt, so that a missing pod was deleted.
        now: the time.
        settings: the installation's settings.
    """
    if state.failed or (ran and state.missing):
        return _end_of_attempt(view, job, state, now)
    if state.missing:
        return _creation(view, state, now)
    if state.blocked:
        return _blocked(job, state, state.blocked, now, settings)
    if state.all_started:
        return Step(state, conditions=(_READY, *_running(state)))
    return Step(state, conditions=_starting(state))


def _creation(view: JobView, state: GangState, now: datetime) -> Step:
    wait = _remaining_delay(view, state, now)
    if wait > 0:
        text = f"attempt {state.attempt} starts in {wait:.0f} s"
        return Step(state, conditions=(_not_ready("BackOff", text),), requeue_after_seconds=wait)
    if view.refusal:
        conditions = (_not_ready(CANNOT_CREATE, view.refusal),)
        return Step(state, create=True, conditions=conditions)
    return Step(state, create=True, conditions=_starting(state))


def _blocked(job: TFDistJob, state: GangState, pod: PodSummary, now: datetime, settings: Settings) -> Step:
    """Report a replica that cannot start, and give up when it has been unable for too long."""
    image_error = pod.reason in CANNOT_START
    reason = ("ConfigError" if "Config" in pod.reason else "ImageError") if image_error else "Unschedulable"
    who = f"{pod.role}-{pod.index}"
    where = f"{_image_path(job, pod.role)}: {who}" if reason == "ImageError" else who
    text = f"{where} cannot start: {pod.reason}: {pod.message or 'no reason given'}"
    deadline = job.spec.run_policy.start_deadline_seconds or (settings.image_deadline_seconds if image_error else None)
    if deadline is None or not pod.created_at:
        return Step(state, conditions=(_not_ready(reason, text),))
    left = deadline - (now - parse_time(pod.created_at)).total_seconds()
    if left <= 0:
        return Step(state, failed=Failed(reason, f"{text}; gave up after {deadline:.0f} s"))
    return Step(state, conditions=(_not_ready(reason, text),), requeue_after_seconds=left)


def _image_path(job: TFDistJob, role: Role) -> str:
    """Return the path of the field that names the image of a role's replicas."""
    name, fields = ("chief", job.spec.chief) if role is Role.CHIEF else ("worker", job.spec.worker)
    return f"spec.{name}.image" if fields and fields.image else "spec.image"


def _end_of_attempt(view: JobView, job: TFDistJob, state: GangState, now: datetime) -> Step:
    """Decide after a failure: fail the job, or go on with the next attempt."""
    cause, decision, text = _cause(state)
    restarts = _counted_up(view, decision)
    failures = _failure_records(state, cause, decision, now)
    if decision.action is Action.FAIL:
        return Step(state, failures=failures, failed=Failed(decision.reason, text))
    limit = job.spec.run_policy.backoff_limit
    if restarts["counted"] > limit:
        message = f"{text}; that was attempt {state.attempt}, and runPolicy.backoffLimit is {limit}"
        return Step(state, failures=failures, failed=Failed("BackoffLimitExceeded", message))
    return _next_attempt(state, decision, text, restarts, failures)


def _next_attempt(
    state: GangState,
    decision: Verdict,
    text: str,
    restarts: dict[str, int],
    failures: tuple[dict[str, Any], ...],
) -> Step:
    following = gang_state(state.gang, state.attempt + 1, ())
    counted = decision.action is Action.RESTART
    delay = restart_delay_seconds(restarts["counted"]) if counted else 0.0
    restarting = Condition(ConditionType.RESTARTING, True, decision.reason, text)
    stopped = Condition(ConditionType.RUNNING, False, decision.reason, text)
    not_ready = _not_ready("Restarting", f"attempt {following.attempt} follows: {text}")
    is_training = state.gang.name is GangName.TRAINING
    event = Event(
        "Restarting", text, warning=True, identity=f"{state.gang.name}-{following.attempt}", cause=decision.reason
    )
    return Step(
        following,
        create=delay == 0,
        conditions=(restarting, *((stopped,) if is_training else ()), not_ready),
        failures=failures,
        restarts=restarts,
        events=(event,),
        requeue_after_seconds=delay or None,
    )


def _cause(state: GangState) -> tuple[PodSummary | None, Verdict, str]:
    if state.failed:
        cause = root_cause(state.failed)
        return cause, verdict(cause), describe(cause)
    gone = ", ".join(f"{m.role}-{m.index}" for m in state.missing)
    return None, DISRUPTION, f"the pod of {gone} was deleted while it ran"


def _counted_up(view: JobView, decision: Verdict) -> dict[str, int]:
    stored = view.status.get("restarts", {})
    result = {"counted": stored.get("counted", 0), "uncounted": stored.get("uncounted", 0)}
    if decision.action is not Action.FAIL:
        result["counted" if decision.action is Action.RESTART else "uncounted"] += 1
    return result


def _failure_records(
    state: GangState, cause: PodSummary | None, decision: Verdict, now: datetime
) -> tuple[dict[str, Any], ...]:
    """Return records for `status.failures`: the root cause last, for it is the newest news."""
    records = []
    for pod in sorted(state.failed, key=lambda p: (p is cause, p.name)):
        root = pod is cause
        record = {
            "time": pod.finished_at or rfc3339(now),
            "attempt": state.attempt,
            "role": str(pod.role),
            "index": pod.index,
            "pod": pod.name,
            "node": pod.node or None,
            "exitCode": pod.exit_code,
            "reason": decision.reason if root else "Secondary",
            "message": describe(pod)[:1024],
            "counted": root and decision.action is Action.RESTART,
            "rootCause": root,
        }
        records.append({k: v for k, v in record.items() if v is not None})
    return tuple(records)


def _remaining_delay(view: JobView, state: GangState, now: datetime) -> float:
    """Return how long the creation of a restarted gang has still to wait, from the recorded failure."""
    last = next((f for f in reversed(view.status.get("failures", ())) if f["rootCause"]), None)
    if last is None or not last["counted"] or last["attempt"] != state.attempt - 1:
        return 0.0
    delay = restart_delay_seconds(view.status.get("restarts", {}).get("counted", 0))
    return delay - (now - parse_time(last["time"])).total_seconds()


def _running(state: GangState) -> tuple[Condition, ...]:
    text = f"all {len(state.pods)} replicas run (attempt {state.attempt})"
    over = Condition(ConditionType.RESTARTING, False, "AllReplicasRun", text)
    restarted = (over,) if state.attempt else ()
    if state.gang.name is GangName.EVALUATION:
        return restarted
    return (*restarted, Condition(ConditionType.RUNNING, True, "AllReplicasRun", text))


def _starting(state: GangState) -> tuple[Condition, ...]:
    """Say that a gang starts; that evaluation starts is said by the phase, and costs no write of its own."""
    if state.gang.name is GangName.EVALUATION:
        return ()
    return (_not_ready("Starting", _waiting_for(state)),)


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(ConditionType.PODS_READY, False, reason, message)


def _waiting_for(state: GangState) -> str:
    return f"{state.gang.name} starts with {len(state.gang.members)} replicas (attempt {state.attempt})"


def current_state(view: JobView, gang: Gang, stored_attempt: int) -> GangState:
    """Return the gang in its newest attempt: the stored one, or a later one that pods tell of."""
    roles = {member.role for member in gang.members}
    attempt = max((p.attempt for p in view.pods if p.role in roles), default=0)
    return gang_state(gang, max(attempt, stored_attempt), view.pods)
