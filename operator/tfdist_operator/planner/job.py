"""Plans a whole job: training with an evaluator beside it, then evaluation, then the end."""

from datetime import datetime

from tfdist.api.policies import CONTROLLER_NAME
from tfdist.api.status import ConditionType
from tfdist.contract import Task
from tfdist.render.gang import evaluation_gang, evaluator_gang, training_gang
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner import evaluation, retell
from tfdist_operator.planner.carry import Carry
from tfdist_operator.planner.cleanup import after_the_end
from tfdist_operator.planner.gang import run_gang
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Event, Plan, Settings
from tfdist_operator.planner.step import Failed, Step
from tfdist_operator.planner.success import all_done, training_succeeded
from tfdist_operator.planner.suspend import resumed, suspended
from tfdist_operator.status.clock import rfc3339
from tfdist_operator.status.compose import Changes, compose, significant
from tfdist_operator.status.conditions import Condition, is_true
from tfdist_operator.status.phase import EVALUATE_ONLY, is_terminal


def plan(view: JobView, now: datetime, settings: Settings) -> Plan:
    """Return everything to do for one job now.

    Args:
        view: one look at the job.
        now: the time, with a time zone.
        settings: the installation's settings.
    """
    if view.deleting or _is_foreign(view):
        return Plan()
    if is_terminal(view.status):
        return after_the_end(view, now, settings)
    if view.job is None:
        return _invalid(view, now)
    look = Look(view, view.job, now, settings)
    carry = Carry(look)
    carry.say(*_corrected(look))
    if look.spec.run_policy.suspend and not all_done(look):
        return suspended(look, carry)
    return _go_on(look, carry)


def _is_foreign(view: JobView) -> bool:
    """Return whether another controller runs the job: hands off, its status included."""
    return view.managed_by not in {None, CONTROLLER_NAME}


def _invalid(view: JobView, now: datetime) -> Plan:
    """Report what is wrong with a manifest; what it made before it became invalid is left alone."""
    message = "; ".join(map(str, view.problems))
    condition = Condition(ConditionType.INVALID, True, "InvalidSpec", message)
    status = compose(view, (), Changes((condition,)), {}, rfc3339(now))
    if not significant(view.status, status):
        return Plan()
    event = Event("Invalid", message, warning=True, identity=str(view.generation))
    return Plan(status=status, events=(event,))


def _go_on(look: Look, carry: Carry) -> Plan:
    """Plan a job that is to run."""
    carry.say(*resumed(look, carry))
    carry.set_default("activeSince", rfc3339(look.now))
    late = _active_for_too_long(look, carry)
    if look.spec.task is Task.EVALUATE:
        return _evaluate_alone(look, carry, late)
    training = look.state(training_gang(look.job))
    if training_succeeded(look, training):
        return evaluation.after_training(look, carry, training, late)
    return _train(look, carry, training, late)


def _train(look: Look, carry: Carry, training: GangState, late: Failed | None) -> Plan:
    step = run_gang(look, training)
    if late and not step.failed:
        carry.know(training)
        return carry.fail(late)
    carry.take(step)
    if step.failed:
        return carry.fail(step.failed)
    if _runs_first(look, step):
        carry.set_default("startTime", rfc3339(look.now))
        carry.tell(_started(step.state))
    evaluator = evaluator_gang(look.job)
    if evaluator is not None:
        evaluation.beside_training(look, carry, look.state(evaluator))
    return carry.finish()


def _runs_first(look: Look, step: Step) -> bool:
    """Return whether all replicas of the gang run now, and nobody may have told of it yet."""
    if not any(c.type is ConditionType.RUNNING and c.holds for c in step.conditions):
        return False
    known = is_true(look.view.status, ConditionType.RUNNING)
    return not known or retell.is_recent(look.view, ConditionType.RUNNING, look.now)


def _evaluate_alone(look: Look, carry: Carry, late: Failed | None) -> Plan:
    """Plan a job of task `Evaluate`: its evaluation gang is all there is."""
    gang = evaluation_gang(look.job)
    assert gang is not None, "task Evaluate always has workers"  # noqa: S101  said by the models
    text = "this job evaluates, and does not train"
    carry.say(Condition(ConditionType.RUNNING, False, EVALUATE_ONLY, text))
    state = look.state(gang)
    if state.leader_succeeded:
        return evaluation.succeed(look, carry, None, state)
    step = run_gang(look, state)
    failed = step.failed or late
    if failed:
        carry.take(step) if step.failed else carry.know(state)
        carry.say(Condition(ConditionType.EVALUATED, False, failed.reason, failed.message))
        return carry.fail(failed)
    carry.take(step)
    if step.state.record.ran and "startTime" not in look.view.status:
        carry.set("startTime", rfc3339(look.now))
        carry.tell(_started(step.state))
    return carry.finish()


def _corrected(look: Look) -> tuple[Condition, ...]:
    if not is_true(look.view.status, ConditionType.INVALID):
        return ()
    return (Condition(ConditionType.INVALID, False, "Corrected", "the specification is valid"),)


def _active_for_too_long(look: Look, carry: Carry) -> Failed | None:
    """Return the end of a job that has been active for too long; set the timer of one that has not."""
    limit = look.spec.run_policy.active_deadline_seconds
    since = look.view.status.get("activeSince")
    if limit is None or since is None:
        carry.again_after(limit)
        return None
    left = limit - look.seconds_since(since)
    if left > 0:
        carry.again_after(left)
        return None
    text = f"the job was active for longer than runPolicy.activeDeadlineSeconds, {limit} s, since {since}"
    return Failed("ActiveDeadlineExceeded", text)


def _started(state: GangState) -> Event:
    leader = f"{state.gang.leader.role}-{state.gang.leader.index}"
    text = f"all {len(state.gang.members)} replicas run; {leader} leads"
    return Event("Running", text, identity=str(state.attempt))
