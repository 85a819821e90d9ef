"""Gathers what the parts of planning decide about one job, and makes one plan of it."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tfdist.api.status import ConditionType
from tfdist.contract_reports import TerminationMessage
from tfdist.render.gang import GangName, Member, gangs
from tfdist.render.installation import Installation
from tfdist.render.launch import Past
from tfdist.render.names import SERVED_LABEL
from tfdist.render.network_policy import network_policy
from tfdist.render.owner import owner_reference
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.service import service
from tfdist_operator.observed.gang import GangState
from tfdist_operator.observed.pod import PodState, PodSummary
from tfdist_operator.observed.record import GangRecord, stored_record
from tfdist_operator.planner import rounds, tensorboard
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.past import past_pods, surplus
from tfdist_operator.planner.plan import Event, Manifest, Patch, Plan, Question
from tfdist_operator.planner.step import Failed, Step, earliest
from tfdist_operator.policy.words import last_words
from tfdist_operator.status.clock import rfc3339
from tfdist_operator.status.compose import Changes, compose, significant
from tfdist_operator.status.conditions import Condition, is_true
from tfdist_operator.status.evaluation import evaluation_of
from tfdist_operator.status.phase import has_trained
from tfdist_operator.status.progress import final_progress, progress_of


class Carry:
    """What is to be done for one job so far. Made anew for every look, and gone after it."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._states: dict[GangName, GangState] = {}
        self._create: list[tuple[GangState, Member]] = []
        self._conditions: list[Condition] = []
        self._fields: dict[str, Any] = {}
        self._failures: list[dict[str, Any]] = []
        self._events: list[Event] = []
        self._ask: tuple[Question, ...] = ()
        self._ask_about = ""
        self._deletes: list[str] = []
        self._again: list[float | None] = []

    def take(self, step: Step) -> None:
        """Take in what a gang's step says; that it has failed is the caller's to act on."""
        self._states[step.state.gang.name] = step.state
        self._create += [(step.state, member) for member in step.create]
        self._failures += step.failures
        self._events += step.events
        self._ask, self._ask_about = (step.ask, step.ask_about) if step.ask else (self._ask, self._ask_about)
        self.say(*step.conditions)
        self.again_after(step.requeue_after_seconds)

    def know(self, state: GangState) -> None:
        """Take in how a gang is, of which nothing is to be done."""
        self._states[state.gang.name] = state

    def say(self, *conditions: Condition) -> None:
        """Set conditions."""
        self._conditions += conditions

    def tell(self, event: Event) -> None:
        """Publish an event once the status is stored."""
        self._events.append(event)

    def set(self, name: str, value: Any) -> None:
        """Set a field of the status; None removes it."""
        self._fields[name] = value

    def set_default(self, name: str, value: Any) -> None:
        """Set a field of the status that is not set yet."""
        if self._look.view.status.get(name) is None:
            self._fields[name] = value

    def delete(self, pods: Iterable[PodSummary]) -> None:
        """Delete pods."""
        self._deletes += [p.name for p in pods if not p.deleting]

    def again_after(self, seconds: float | None) -> None:
        """Look again in so many seconds, though nothing happens."""
        self._again.append(seconds)

    def fail(self, failed: Failed) -> Plan:
        """Return the plan of a job that has failed for good."""
        self.say(
            *(() if has_trained(self._look.view.status) else (self._stopped(failed),)),
            Condition(ConditionType.FAILED, True, failed.reason, failed.message),
        )
        self.tell(Event("Failed", failed.message, warning=True))
        return self.end()

    def end(self) -> Plan:
        """Return the plan of a job that has ended; what its end is has been said."""
        self.set("completionTime", rfc3339(self._look.now))
        self.say(*self._over())
        self._create.clear()
        self._ask = ()
        self._again = [0.01]
        return self.finish()

    def _over(self) -> Iterable[Condition]:
        """Yield what no longer holds of a job that has ended."""
        said = {c.type: c.holds for c in self._conditions}
        for kind in (ConditionType.PODS_READY, ConditionType.RESTARTING, ConditionType.STALLED):
            if said.get(kind, is_true(self._look.view.status, kind)):
                yield Condition(kind, False, "Ended", "the job has ended")

    def _stopped(self, failed: Failed) -> Condition:
        return Condition(ConditionType.RUNNING, False, failed.reason, failed.message)

    def finish(self) -> Plan:
        """Return the plan; a status in which only counters moved is written at most every few seconds."""
        look, view = self._look, self._look.view
        self._fields["gangs"] = self._records()
        self._fields["evaluation"] = self.evaluation() or None
        self._fields["tensorBoard"] = tensorboard.status_of(look)
        changes = Changes(tuple(self._conditions), self._fields, tuple(self._failures))
        states = tuple(self._states.values())
        status = compose(view, states, changes, self.progress(), rfc3339(look.now))
        write: Manifest | None = status
        if status == view.status:
            write = None
        elif not significant(view.status, status) and view.seconds_since_status_write is not None:
            wait = look.settings.progress_write_seconds - view.seconds_since_status_write
            if wait > 0:
                write = None
                self.again_after(wait)
        past = past_pods(look.job, self._all_records(), view.pods)
        self.delete(p for p in past if not p.ended)  # whoever ended their attempt may have been killed
        self.delete(surplus(look.job, status, past))
        return Plan(
            status=write,
            objects=self._objects(),
            creates=tuple(self._pods()),
            patches=tuple(self._patches(past)),
            deletes=tuple(dict.fromkeys(self._deletes)),
            ask=self._ask,
            ask_about=self._ask_about,
            events=tuple(self._events),
            tensorboard=tensorboard.beside_job(look, self._installation),
            remove_tensorboard=tensorboard.is_given_up(look),
            completed={str(n): (s.record.attempt, s.record.completed) for n, s in self._states.items()},
            requeue_after_seconds=earliest(self._again),
        )

    def progress(self) -> dict[str, Any]:
        """Return `status.progress`: from the leader's last words, its report, or as it was."""
        view = self._look.view
        stored: dict[str, Any] = dict(view.status.get("progress", {}))
        training = self._states.get(GangName.TRAINING)
        leader = training.leader if training else None
        words = last_words(leader) if leader and leader.state is PodState.SUCCEEDED else None
        if words is not None:
            return final_progress(stored, words)
        report = view.report
        if report is None or training is None or has_trained(view.status):
            return stored
        if leader is None or report.content.attempt != leader.attempt:
            return stored
        return progress_of(report, stored)

    def evaluation(self) -> dict[str, Any]:
        """Return `status.evaluation`: from what the evaluator told, and the last words of those who are done."""
        view = self._look.view
        words = (self._last_words(GangName.EVALUATOR), self._last_words(GangName.EVALUATION))
        return evaluation_of(view.status.get("evaluation", {}), view.evaluated, *words)

    def _last_words(self, gang: GangName) -> TerminationMessage | None:
        """Return the last words of the leader of a gang that has succeeded."""
        state = self._states.get(gang)
        return last_words(state.leader) if state and state.leader_succeeded and state.leader else None

    def _records(self) -> dict[str, Any]:
        stored = dict(self._look.view.status.get("gangs", {}))
        return stored | {str(name): self._told_template(state).to_json() for name, state in self._states.items()}

    def _told_template(self, state: GangState) -> GangRecord:
        """Return the record of a gang with what its pods are made of: now, as long as there are none."""
        if state.pods and state.record.template:
            return state.record
        return replace(state.record, template=self._look.view.template)

    def _record(self, gang: GangName) -> GangRecord:
        state = self._states.get(gang)
        return state.record if state else stored_record(self._look.view.status, gang) or GangRecord()

    def _all_records(self) -> dict[GangName, GangRecord]:
        return {gang.name: self._record(gang.name) for gang in gangs(self._look.job)}

    @property
    def _generation(self) -> int:
        """The value by which the Service selects: any new attempt of a whole gang makes a new one."""
        return self._record(GangName.TRAINING).floor + self._record(GangName.EVALUATION).floor

    def _objects(self) -> tuple[Manifest, ...]:
        """Return what must be there before pods of a new address generation are."""
        whole = [s for s, _ in self._create if s.gang.name is not GangName.EVALUATOR and not s.record.replaced]
        if not whole:
            return ()
        first = whole[0].gang.name is GangName.TRAINING or not self._look.view.status.get("gangs", {}).get("training")
        if not first and self._record(GangName.EVALUATION).floor == 0:
            return ()  # the evaluation that follows training is found under the generation of training
        made = service(self._look.job, self._generation)
        if self._look.spec.network_policy != "Enabled":
            return (made,)
        return (made, network_policy(self._look.job, self._look.settings.namespace))

    @property
    def _installation(self) -> Installation:
        settings = self._look.settings
        return Installation(settings.trainer_image, settings.cluster_domain, settings.namespace, settings.pod_defaults)

    def _pods(self) -> Iterable[Manifest]:
        """Yield the pods to be created, what those of a gang share made once."""
        avoided = tuple(dict.fromkeys(node for record in self._all_records().values() for node in record.avoided))
        renderers: dict[GangName, PodRenderer] = {}
        for state, member in self._create:
            name = state.gang.name
            if name not in renderers:
                past = Past(state.record.attempt_of, rounds.used(state.record))
                renderers[name] = PodRenderer(self._look.job, state.gang, self._installation, past)
            yield renderers[name].pod(member, Attempt(state.record.attempt_of(member), self._generation, avoided))

    def _patches(self, past: Iterable[PodSummary]) -> Iterable[Patch]:
        """Yield changes of pods: orphans are taken in, and a replica that is replaced alone loses its address."""
        reference = {"metadata": {"ownerReferences": [owner_reference(self._look.job)]}}
        superseded = {p.name for p in past}
        for found in self._look.view.pods:
            if not found.owned and not found.deleting:
                yield Patch(found.name, reference)
            elif found.name in superseded and not found.ended and found.generation == str(self._generation):
                yield Patch(found.name, {"metadata": {"labels": {SERVED_LABEL: None}}})
