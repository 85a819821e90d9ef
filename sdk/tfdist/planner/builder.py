"""Collects the decisions about one job and builds the plan."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tfdist.api.status import ConditionType
from tfdist.contract_reports import TerminationMessage
from tfdist.desired.objects import network_objects, obsolete_objects, obsolete_pod_groups, tensorboard_objects
from tfdist.desired.pods import (
    address_generation,
    missing_pods,
    ownership_patches,
    pods_to_prune,
    sidecar_patches,
    stale_pods,
)
from tfdist.observed.cadence import cadence_of, to_status
from tfdist.observed.gang_record import GangRecord
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import TimestampedReport
from tfdist.observed.pod import PodSummary
from tfdist.planner.context import PlanContext
from tfdist.planner.decision import Failure, GangDecision, min_delay
from tfdist.planner.gang_scheduling import all_run, checkpoint_patches, pod_groups, scheduling_status, starting_system
from tfdist.planner.kueue import placements, workload_change
from tfdist.planner.plan import Event, Plan, ProbeTarget
from tfdist.planner.revision import retained_specifications
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render import names
from tfdist.render.gang import GangName, Member
from tfdist.render.launch import uses_launcher
from tfdist.render.launcher_secret import launcher_secret
from tfdist.render.metadata import Manifest
from tfdist.render.replica_job import export_directory
from tfdist.status.accounts import accounted
from tfdist.status.conditions import Condition, is_true
from tfdist.status.counts import replica_counts
from tfdist.status.phase import is_suspended_or_suspending, training_succeeded
from tfdist.status.progress import ended_progress, evaluation_of, exports_of, progress_of, script_evaluation_of
from tfdist.status.update import StatusUpdate, compose_status, throttled_write
from tfdist.termination import termination_message
from tfdist.timestamps import rfc3339


class PlanBuilder:
    """Collects decisions, conditions, events and status fields. One builder serves one reconcile."""

    def __init__(self, context: PlanContext) -> None:
        self._context = context
        self._states: dict[GangName, GangState] = {}
        self._create: list[tuple[GangState, tuple[Member, ...]]] = []
        self._conditions: list[Condition] = []
        self._fields: dict[str, Any] = {}
        self._failures: list[dict[str, Any]] = []
        self._events: list[Event] = []
        self._probes: tuple[ProbeTarget, ...] = ()
        self._probe_id = ""
        self._unexplained_pod = ""
        self._deletes: list[str] = []
        self._requeue_delays: list[float | None] = []
        self._ended = False

    def add_decision(self, decision: GangDecision) -> None:
        """Add the decision about a gang; a failure in it is left to the caller."""
        state = self._at_start(decision.state)
        self._states[state.gang.name] = state
        if decision.create and self._may_create(state):
            self._create.append((state, decision.create))
        self._failures += decision.failures
        self._events += decision.events
        self._probes, self._probe_id = (
            (decision.probes, decision.probe_id) if decision.probes else (self._probes, self._probe_id)
        )
        self._unexplained_pod = self._unexplained_pod or decision.unexplained_pod
        self.set_conditions(*decision.conditions)
        self.requeue_after(decision.requeue_after_seconds)

    def _may_create(self, state: GangState) -> bool:
        """Return whether pods may be created: the specification is valid, and a gang that starts has its quota."""
        context = self._context
        return context.revision is not None and (bool(state.pods) or not context.outdated_workload)

    def track_gang(self, state: GangState) -> None:
        """Add the state of a gang for which there is nothing to do."""
        self._states[state.gang.name] = self._at_start(state)

    def _at_start(self, state: GangState) -> GangState:
        """Return the state with the key of the launchers and the gang scheduler where an attempt begins now.

        An attempt that an earlier version began keeps its token, or has none: all its pods must authenticate alike. All
        its pods have the same gang scheduler.
        """
        stored = self._context.records.get(state.gang.name)
        if state.pods if stored is None else stored.last_full_restart == state.record.last_full_restart:
            return state
        key = {"token": "", "launcher_key": True} if state.gang.name is GangName.TRAINING else {}
        system = starting_system(self._context, state.gang)
        return replace(state, record=state.record.changed(**key, system=system, pod_group=False))

    def set_conditions(self, *conditions: Condition) -> None:
        """Set conditions; of two of one type the later wins."""
        self._conditions += conditions

    def record_event(self, event: Event) -> None:
        """Publish an event after the status is written."""
        self._events.append(event)

    def set_field(self, name: str, value: Any) -> None:
        """Set a field of the status; None removes it."""
        self._fields[name] = value

    def set_field_if_unset(self, name: str, value: Any) -> None:
        """Set a field of the status that has no value yet."""
        if self._context.view.status.get(name) is None:
            self._fields[name] = value

    def delete_pods(self, pods: Iterable[PodSummary]) -> None:
        """Delete pods that are not terminating already."""
        self._deletes += [p.name for p in pods if not p.deleting]

    def requeue_after(self, seconds: float | None) -> None:
        """Reconcile again after so many seconds; None adds no timer."""
        self._requeue_delays.append(seconds)

    def fail(self, failure: Failure) -> Plan:
        """Return the plan of a job that fails."""
        self.set_conditions(
            *(() if training_succeeded(self._context.view.status) else (self._stopped(failure),)),
            Condition(ConditionType.FAILED, True, failure.reason, failure.message),
        )
        self.record_event(Event(EventReason.FAILED, failure.message, warning=True))
        return self.complete()

    def complete(self) -> Plan:
        """Return the plan of a job that finishes; the caller has set the terminal condition."""
        self.set_field("completionTime", rfc3339(self._context.now))
        self.set_conditions(*self._finished_conditions())
        self._create.clear()
        self._probes = ()
        self._requeue_delays = [0.01]
        self._ended = True
        return self.build()

    def _finished_conditions(self) -> Iterable[Condition]:
        """Yield conditions that are no longer true of a finished job."""
        stated = {c.type: c.status for c in self._conditions}
        for kind in (ConditionType.PODS_READY, ConditionType.RESTARTING, ConditionType.STALLED):
            if stated.get(kind, is_true(self._context.view.status, kind)):
                yield Condition(kind, False, ConditionReason.JOB_FINISHED, "the job has ended")
        if is_suspended_or_suspending(self._context.view.status):
            yield Condition(ConditionType.SUSPENDED, False, ConditionReason.JOB_FINISHED, "the job has ended")

    def _stopped(self, failure: Failure) -> Condition:
        return Condition(ConditionType.RUNNING, False, failure.reason, failure.message)

    def build(self) -> Plan:
        """Return the plan: the status, the pods and the other objects that follow from the decisions."""
        context, view, job = self._context, self._context.view, self._context.job
        installation, status = context.installation, self._status()
        runs = self._ended or all_run(self._states)
        report = self._training_report()
        write = accounted(throttled_write(view, status), view, report.content if report else None, context.now)
        self.requeue_after(write.wait_seconds)
        records = {name: self._record(name) for name in GangName}
        stale, generation = stale_pods(context.gangs.values(), records, view.pods), address_generation(records)
        # The controller that ended their attempt may have been killed before it deleted them.
        self.delete_pods(p for p in stale if not p.ended)
        self.delete_pods(pods_to_prune(job, status, stale))
        deletes = tuple(dict.fromkeys(self._deletes))
        creates = tuple(
            pod
            for state, members in self._create
            for pod in missing_pods(
                context.specification_of(state) or job, state, members, records, installation, placements(view, job)
            )
        )
        groups = pod_groups(context, self._states.values(), [state.gang.name for state, _ in self._create])
        obsolete_groups = obsolete_pod_groups(job.metadata.name, records, groups)
        return Plan(
            status=write.status,
            counters_only=write.counters_only,
            objects=(*network_objects(job, generation, installation, view.pods, creates=bool(creates)), *groups),
            workload=workload_change(
                view, job, installation, context.now, outdated=context.outdated_workload, all_run=runs
            ),
            launcher_secret=self._launcher_secret(),
            creates=creates,
            patches=(
                *ownership_patches(job, view.pods, stale, generation),
                *sidecar_patches(view.pods, deletes),
                *checkpoint_patches(self._states, self._fields["scheduling"], self.progress()),
            ),
            deletes=deletes,
            probes=self._probes,
            probe_id=self._probe_id,
            unexplained_pod="" if self._ended else self._unexplained_pod,
            events=tuple(self._events),
            tensorboard=() if view.problems else tensorboard_objects(job, installation),
            obsolete=(*(() if view.problems else obsolete_objects(job)), *obsolete_groups),
            failure_seen_at=context.failure_seen_at,
            completed={str(n): (s.record.attempt, s.record.completed) for n, s in self._states.items()},
            requeue_after_seconds=min_delay(self._requeue_delays),
        )

    def _launcher_secret(self) -> Manifest | None:
        """Return the Secret for pods that are created, until all have run: the controller cannot see whether it exists.

        A replica that is replaced later needs the key that the others have; another Secret would not have it.
        """
        context = self._context
        for state, _ in self._create:
            job = context.specification_of(state) or context.job
            if state.record.launcher_key and not state.record.has_run and uses_launcher(job, state.gang):
                return launcher_secret(job, context.view.launcher_key)
        return None

    def _status(self) -> dict[str, Any]:
        """Return the new status."""
        context, view = self._context, self._context.view
        self._fields["gangs"] = records = self._records()
        self._fields["specifications"] = (not self._ended and retained_specifications(view, records)) or None
        self._fields["evaluation"] = self.evaluation() or None
        self._fields["export"] = self._exports() or None
        counts = view.status.get("replicas", {})
        self._fields["replicas"] = replica_counts(context.gangs.values(), self._states.values(), counts)
        self._fields["scheduling"] = scheduling_status(context, self._states)
        if not view.problems:
            board = names.tensorboard(context.job.metadata.name)
            self._fields["tensorBoard"] = {"service": board} if context.spec.tensor_board else None
        changes = StatusUpdate(tuple(self._conditions), self._fields, tuple(self._failures))
        return compose_status(view, tuple(self._states.values()), changes, self.progress(), rfc3339(context.now))

    def progress(self) -> dict[str, Any]:
        """Return `status.progress`: from termination messages where the last leader has ended, else from its report."""
        view = self._context.view
        stored: dict[str, Any] = dict(view.status.get("progress", {}))
        training = self._states.get(GangName.TRAINING)
        if training is None:
            return stored
        ended = ended_progress(stored, training.gang, view.pods)
        if ended is not None:
            return ended
        report = self._training_report()
        return progress_of(report, stored, training.gang) if report else stored

    def _training_report(self) -> TimestampedReport | None:
        """Return the report of the leader of training while it runs."""
        view, training = self._context.view, self._states.get(GangName.TRAINING)
        leader = training.leader if training else None
        if view.runtime.report is None or leader is None or training_succeeded(view.status):
            return None
        return view.runtime.report if view.runtime.report.content.attempt == leader.attempt else None

    def evaluation(self) -> dict[str, Any]:
        """Return `status.evaluation`: from the evaluator's report and the termination messages of completed gangs.

        Without an evaluator, a script may evaluate while it trains.
        """
        view = self._context.view
        messages = (self._termination_message(GangName.EVALUATOR), self._termination_message(GangName.EVALUATION))
        known = evaluation_of(view.status.get("evaluation", {}), view.runtime.evaluated, *messages)
        if {GangName.EVALUATOR, GangName.EVALUATION} & self._states.keys():
            return known
        report = self._training_report()
        return script_evaluation_of(
            known, report.content if report else None, self._termination_message(GangName.TRAINING)
        )

    def _exports(self) -> dict[str, Any]:
        stored: dict[str, Any] = dict(self._context.view.status.get("export", {}))
        directory = None if self._context.view.problems else export_directory(self._context.job)
        if directory is None:
            return stored
        messages = map(self._termination_message, (GangName.TRAINING, GangName.EVALUATOR))
        return exports_of(stored, directory, messages)

    def _termination_message(self, gang: GangName) -> TerminationMessage | None:
        """Return the termination message of the leader of a gang that succeeded."""
        state = self._states.get(gang)
        return termination_message(state.leader.message) if state and state.leader_succeeded and state.leader else None

    def _records(self) -> dict[str, Any]:
        stored = dict(self._context.view.status.get("gangs", {}))
        return stored | {str(name): self._complete_record(state).to_json() for name, state in self._states.items()}

    def _complete_record(self, state: GangState) -> GangRecord:
        """Return the record of a gang with its revision, and with its progress where a deadline needs that."""
        record, cadence = self._context.with_revision(state), cadence_of(self._context.view, state)
        if self._context.spec.run_policy.progress_deadline_seconds is None:
            return record.changed(progress=None)
        return record if cadence is None else record.changed(progress=to_status(cadence, state.gang.leader.role))

    def _record(self, gang: GangName) -> GangRecord:
        state = self._states.get(gang)
        return state.record if state else self._context.records.get(gang, GangRecord())
