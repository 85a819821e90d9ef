"""Evaluation: the evaluator beside training, the gang after it, and what their results make of the job."""

from typing import Any

from tfdist.api.status import ConditionType
from tfdist.api.training import EvaluationSpec
from tfdist.render.gang import GangName, evaluation_gang, evaluator_gang
from tfdist_operator.observed.gang import GangState
from tfdist_operator.planner.carry import Carry
from tfdist_operator.planner.gang import run_gang
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Event, Plan
from tfdist_operator.planner.step import Failed
from tfdist_operator.planner.success import trained, training_text
from tfdist_operator.status.conditions import Condition, find
from tfdist_operator.status.phase import has_trained

_DEFAULT = EvaluationSpec()
"""What holds for an evaluator of the author's own, of which the job says no more."""


def beside_training(look: Look, carry: Carry, state: GangState) -> None:
    """Run the evaluator; when it is given up, training goes on and hears nothing of it."""
    if _given_up(look) is not None or state.leader_succeeded:
        carry.know(state)
        carry.delete(p for p in state.pods if not p.ended)
        return
    step = run_gang(look, state)
    carry.take(step)
    if step.failed:
        carry.say(Condition(ConditionType.EVALUATED, False, step.failed.reason, step.failed.message))
        carry.tell(Event("EvaluationFailed", step.failed.message, warning=True))


def after_training(look: Look, carry: Carry, training: GangState, late: Failed | None) -> Plan:
    """Plan a job that has trained: evaluate its final checkpoint, then end it."""
    carry.know(training)
    carry.say(*trained(look, carry.progress()))
    _release(look, carry, training)
    evaluator, gang = evaluator_gang(look.job), evaluation_gang(look.job)
    known = _given_up(look)
    if known is not None and gang is None:
        return _failed(look, carry, known)
    states = [look.state(g) for g in (evaluator if known is None else None, gang) if g is not None]
    for state in states:
        carry.know(state)
    waiting = [s for s in states if not s.leader_succeeded]
    if not waiting:
        return succeed(look, carry, training, states[-1] if states else None)
    too_late = _too_late(look, carry)
    if too_late and not late and all(s.gang.name is GangName.EVALUATOR and _has_done(look, carry) for s in waiting):
        return succeed(look, carry, training, states[-1], "was stopped at evaluation.deadlineSeconds")
    failed = late or too_late
    if failed:
        return _failed(look, carry, failed)
    for state in waiting:
        step = run_gang(look, state)
        carry.take(step)
        if step.failed:
            return _failed(look, carry, step.failed)
    return carry.finish()


def succeed(
    look: Look, carry: Carry, training: GangState | None, state: GangState | None, ended: str = "has ended"
) -> Plan:
    """Plan the end of a job that did all it was to do; `state` is the gang that evaluated last, and how it ended."""
    text = training_text(carry.progress()) if training else ""
    if state is not None:
        carry.know(state)
        result = carry.evaluation().get("final")
        said = _result_text(result) if result else f"the {state.gang.name} {ended} and told no result"
        if result or state.gang.name is GangName.EVALUATION or look.spec.evaluation is not None:
            carry.say(Condition(ConditionType.EVALUATED, True, "Evaluated" if result else "NoResult", said))
        text = f"{text}; {said}" if text else said
    carry.say(Condition(ConditionType.SUCCEEDED, True, "Succeeded", text))
    carry.tell(Event("Succeeded", text))
    return carry.end()


def _given_up(look: Look) -> Failed | None:
    """Return why the evaluator was given up while training went on, where it was."""
    known = find(look.view.status, ConditionType.EVALUATED)
    return Failed(known["reason"], known["message"]) if known and known["status"] == "False" else None


def _failed(look: Look, carry: Carry, failed: Failed) -> Plan:
    """End a job that was trained and could not be evaluated; `evaluation.onFailure` decides what it counts."""
    evaluation = look.spec.evaluation or _DEFAULT
    text = f"evaluation failed: {failed.message}"
    ended = ConditionType.FAILED if evaluation.on_failure == "FailJob" else ConditionType.SUCCEEDED
    carry.say(
        Condition(ConditionType.EVALUATED, False, failed.reason, failed.message),
        Condition(ended, True, "EvaluationFailed", text),
    )
    carry.tell(Event(str(ended), text, warning=True))
    return carry.end()


def _too_late(look: Look, carry: Carry) -> Failed | None:
    """Return the end of an evaluation that has taken too long since training ended; else set its timer.

    While the job was suspended no time passed for it: it begins anew when the job is resumed.
    """
    limit = (look.spec.evaluation or _DEFAULT).deadline_seconds
    known = find(look.view.status, ConditionType.RUNNING) if has_trained(look.view.status) else None
    resumed = look.view.status.get("activeSince")
    since = max(known["lastTransitionTime"], resumed) if known and resumed else ""
    left = limit - look.seconds_since(since) if since else float(limit)
    if left > 0:
        carry.again_after(left)
        return None
    text = f"not finished {limit} s after training (evaluation.deadlineSeconds)"
    return Failed("EvaluationDeadlineExceeded", text)


def _release(look: Look, carry: Carry, training: GangState) -> None:
    """Delete replicas of training that go on after its success, as parameter servers do, once they had their time."""
    left = [p for p in training.pods if not p.ended]
    known = find(look.view.status, ConditionType.RUNNING)
    since = known["lastTransitionTime"] if known and has_trained(look.view.status) else None
    wait = look.settings.settle_seconds - (look.seconds_since(since) if since else 0.0)
    if not left:
        return
    if wait > 0:
        carry.again_after(wait)
    else:
        carry.delete(left)


def _has_done(look: Look, carry: Carry) -> bool:
    """Return whether an evaluator that still runs has done what the job waits for.

    One of the author's own is done when it ends or its time is over; ours, once it has scored the last checkpoint.
    """
    own = look.spec.training is None or (look.spec.evaluator is not None and look.spec.evaluator.command is not None)
    return own or "final" in carry.evaluation()


def _result_text(result: dict[str, Any]) -> str:
    metrics = ", ".join(f"{name}={value:.4f}" for name, value in sorted(result["metrics"].items()))
    return f"evaluated {result['examples']} examples of the checkpoint at step {result['step']}: {metrics}"
