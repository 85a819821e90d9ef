"""Plans a whole job: training, then evaluation, then clean-up."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tfdist.api.status import ConditionType
from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import Gang, evaluation_gang, training_gang
from tfdist.render.pod import Attempt, Installation, pod
from tfdist.render.service import service
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import PodState
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner.gang import Failed, Step, current_state, run_gang
from tfdist_operator.planner.plan import Event, Manifest, Plan, Settings
from tfdist_operator.policy.words import last_words
from tfdist_operator.status.clock import parse_time, rfc3339
from tfdist_operator.status.compose import Changes, compose, significant
from tfdist_operator.status.conditions import Condition, is_true
from tfdist_operator.status.phase import TRAINED, has_trained, is_terminal
from tfdist_operator.status.progress import final_progress, progress_of


def plan(view: JobView, now: datetime, settings: Settings) -> Plan:
    """Return everything to do for one job now.

    Args:
        view: one look at the job.
        now: the time, with a time zone.
        settings: the installation's settings.
    """
    if view.deleting:
        return Plan()
    if is_terminal(view.status):
        return _clean_up(view, now, settings)
    if view.job is None:
        return _invalid(view, now)
    look = _Look(view, view.job, now, settings)
    training = current_state(view, training_gang(view.job), view.status.get("attempt", 0))
    if not has_trained(view.status) and not training.succeeded:
        return look.train(training)
    gang = evaluation_gang(view.job)
    if gang is None:
        return look.succeed(training, None)
    return look.evaluate(training, gang)


def _invalid(view: JobView, now: datetime) -> Plan:
    """Report what is wrong with a manifest; what it made before it became invalid is left alone."""
    message = "; ".join(map(str, view.problems))
    condition = Condition(ConditionType.INVALID, True, "InvalidSpec", message)
    status = compose(view, (), Changes((condition,)), {}, rfc3339(now))
    if not significant(view.status, status):
        return Plan()
    event = Event("Invalid", message, warning=True, identity=str(view.generation))
    return Plan(status=status, events=(event,))


def _clean_up(view: JobView, now: datetime, settings: Settings) -> Plan:
    """Delete what `cleanPodPolicy` says once the job has ended; the others get time to end by themselves."""
    policy = view.job.spec.run_policy.clean_pod_policy if view.job else "Running"
    if policy == "None":
        return Plan()
    unfinished = [p for p in view.pods if not p.deleting and (policy == "All" or not p.ended)]
    if not unfinished:
        return Plan()
    ended = parse_time(view.status["completionTime"])
    settle = settings.settle_seconds if is_true(view.status, ConditionType.SUCCEEDED) else 0.0
    left = (ended + timedelta(seconds=settle) - now).total_seconds()
    if left > 0:
        return Plan(requeue_after_seconds=left)
    return Plan(deletes=tuple(p.name for p in unfinished))


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at one valid job that has not ended, and the plans that can follow from it."""

    view: JobView
    job: TFDistJob
    now: datetime
    settings: Settings

    def train(self, training: GangState) -> Plan:
        """Plan training."""
        stored = self.view.status
        ran = is_true(stored, ConditionType.RUNNING) and training.attempt == stored.get("attempt", 0)
        step = run_gang(self.view, self.job, training, ran=ran, now=self.now, settings=self.settings)
        if step.failed:
            return self._fail(training, step, step.failed)
        fields: dict[str, Any] = {"attempt": step.state.attempt}
        if step.restarts:
            fields["restarts"] = step.restarts
        events = list(step.events)
        if any(c.type is ConditionType.RUNNING and c.holds for c in step.conditions):
            fields |= {} if "startTime" in stored else {"startTime": rfc3339(self.now)}
            if not ran:
                events.append(self._started(step.state))
        creates = self._pods(step, step.state.attempt) if step.create else ()
        generation = self._address_generation(step.state.attempt, 0)
        made = service(self.job, generation) if step.create else None
        changes = Changes(self._valid(step.conditions), fields, step.failures)
        return self._finish((step.state,), changes, step, creates=creates, made=made, events=tuple(events))

    def evaluate(self, training: GangState, gang: Gang) -> Plan:
        """Plan the evaluation that follows training."""
        stored = self.view.status.get("evaluation", {})
        state = current_state(self.view, gang, stored.get("attempt", 0))
        trained = self._trained(training)
        if state.succeeded:
            return self.succeed(training, state)
        step = run_gang(self.view, self.job, state, ran=False, now=self.now, settings=self.settings)
        if step.failed:
            return self._evaluation_failed(training, state, step, step.failed)
        fields: dict[str, Any] = {"evaluation": {**stored, "attempt": step.state.attempt}}
        if step.restarts:
            fields["restarts"] = step.restarts
        events = step.events if has_trained(self.view.status) else (*step.events, self._training_succeeded(training))
        generation = self._address_generation(training.attempt, step.state.attempt)
        creates = self._pods(step, generation) if step.create else ()
        made = service(self.job, generation) if step.create and step.state.attempt else None
        changes = Changes((*trained, *step.conditions), fields, step.failures)
        return self._finish((training, step.state), changes, step, creates=creates, made=made, events=events)

    def succeed(self, training: GangState, evaluation: GangState | None) -> Plan:
        """Plan the end of a job that did all it was to do."""
        text = f"training succeeded after {self._steps(training)} steps"
        conditions = list(self._trained(training))
        fields: dict[str, Any] = {"attempt": training.attempt, "completionTime": rfc3339(self.now)}
        if evaluation is not None:
            result = self._evaluation_result(evaluation)
            said = _result_text(result) if result else "the evaluation gang ended without a result"
            text = f"{text}; {said}"
            conditions.append(Condition(ConditionType.EVALUATED, result is not None, "Evaluated", said))
            stored = self.view.status.get("evaluation", {})
            fields["evaluation"] = {
                **stored,
                "attempt": evaluation.attempt,
                **({"final": result} if result else {}),
            }
        conditions.append(Condition(ConditionType.SUCCEEDED, True, "Succeeded", text))
        states = (training, evaluation) if evaluation else (training,)
        step = Step(states[-1], requeue_after_seconds=self.settings.settle_seconds)
        event = Event("Succeeded", text)
        return self._finish(states, Changes(tuple(conditions), fields), step, events=(event,))

    def _fail(self, training: GangState, step: Step, failed: Failed) -> Plan:
        conditions = (
            Condition(ConditionType.RUNNING, False, failed.reason, failed.message),
            Condition(ConditionType.FAILED, True, failed.reason, failed.message),
        )
        fields = {"attempt": training.attempt, "completionTime": rfc3339(self.now)}
        event = Event("Failed", failed.message, warning=True)
        again = Step(training, requeue_after_seconds=0.01)
        return self._finish((training,), Changes(conditions, fields, step.failures), again, events=(event,))

    def _evaluation_failed(self, training: GangState, state: GangState, step: Step, failed: Failed) -> Plan:
        """End a job that was trained and could not be evaluated; `evaluation.onFailure` decides what it counts."""
        evaluation = self.job.spec.evaluation
        fatal = evaluation is not None and evaluation.on_failure == "FailJob"
        text = f"evaluation failed: {failed.message}"
        ended = ConditionType.FAILED if fatal else ConditionType.SUCCEEDED
        conditions = (
            *self._trained(training),
            Condition(ConditionType.EVALUATED, False, failed.reason, text),
            Condition(ended, True, "EvaluationFailed", text),
        )
        fields = {"completionTime": rfc3339(self.now)}
        event = Event(str(ended), text, warning=True)
        again = Step(state, requeue_after_seconds=self.settings.settle_seconds)
        return self._finish((training, state), Changes(conditions, fields, step.failures), again, events=(event,))

    def _finish(
        self,
        states: tuple[GangState, ...],
        changes: Changes,
        step: Step,
        *,
        creates: tuple[Manifest, ...] = (),
        made: Manifest | None = None,
        events: tuple[Event, ...] = (),
    ) -> Plan:
        """Put a plan together; a status in which only counters moved is written at most every few seconds."""
        view = self.view
        status = compose(view, states, changes, self._progress(states[0]), rfc3339(self.now))
        requeue = step.requeue_after_seconds
        write: Manifest | None = status
        if status == view.status:
            write = None
        elif not significant(view.status, status) and view.seconds_since_status_write is not None:
            wait = self.settings.progress_write_seconds - view.seconds_since_status_write
            if wait > 0:
                write, requeue = None, min(wait, requeue or wait)
        return Plan(write, made, creates, self._superseded(states), events, requeue)

    def _superseded(self, states: tuple[GangState, ...]) -> tuple[str, ...]:
        """Return the pods of earlier attempts that still run: whoever ended their attempt may have been killed."""
        current = {member.role: state.attempt for state in states for member in state.gang.members}
        return tuple(
            p.name for p in self.view.pods if not p.ended and not p.deleting and p.attempt < current.get(p.role, 0)
        )

    def _pods(self, step: Step, generation: int) -> tuple[Manifest, ...]:
        attempt, installation = Attempt(step.state.attempt, generation), Installation(self.settings.trainer_image)
        return tuple(pod(self.job, step.state.gang, member, attempt, installation) for member in step.state.missing)

    def _progress(self, training: GangState) -> dict[str, Any]:
        stored: dict[str, Any] = dict(self.view.status.get("progress", {}))
        leader = training.leader
        words = last_words(leader) if leader and leader.state is PodState.SUCCEEDED else None
        if words is not None:
            return final_progress(stored, words)
        report = self.view.report
        if report is None or report.content.attempt != training.attempt or has_trained(self.view.status):
            return stored
        return progress_of(report)

    def _evaluation_result(self, state: GangState) -> dict[str, Any] | None:
        words = last_words(state.leader) if state.leader else None
        if words is None or words.evaluation is None:
            return None
        return words.evaluation.model_dump(mode="json", by_alias=True)

    def _trained(self, training: GangState) -> tuple[Condition, ...]:
        if has_trained(self.view.status):
            return ()
        text = f"training succeeded after {self._steps(training)} steps"
        return (Condition(ConditionType.RUNNING, False, TRAINED, text),)

    def _steps(self, training: GangState) -> str:
        return str(self._progress(training).get("step", "an unknown number of"))

    def _training_succeeded(self, training: GangState) -> Event:
        return Event(TRAINED, f"training succeeded after {self._steps(training)} steps; evaluating")

    def _started(self, state: GangState) -> Event:
        leader = describe_leader(state)
        return Event("Running", f"all {len(state.pods)} replicas run; {leader} leads", identity=str(state.attempt))

    def _valid(self, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
        if not is_true(self.view.status, ConditionType.INVALID):
            return conditions
        return (
            Condition(ConditionType.INVALID, False, "Corrected", "the specification is valid"),
            *conditions,
        )

    def _address_generation(self, training_attempt: int, evaluation_attempt: int) -> int:
        """Return the value by which the Service selects: any new attempt of any gang makes a new one."""
        return training_attempt + evaluation_attempt


def describe_leader(state: GangState) -> str:
    """Return the name of the replica that leads a gang."""
    return f"{state.gang.leader.role}-{state.gang.leader.index}"


def _result_text(result: dict[str, Any]) -> str:
    metrics = ", ".join(f"{name}={value:.4f}" for name, value in sorted(result["metrics"].items()))
    return f"evaluated {result['examples']} examples of the checkpoint at step {result['step']}: {metrics}"
