"""Collects the decisions about one job and builds the plan."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, Unpack

from tfdist.api.base import ApiModel
from tfdist.api.gang_status import GangStatus
from tfdist.api.gang_system import GangSystem
from tfdist.api.status import (
    ConditionType,
    EvaluationStatus,
    ExportStatus,
    Progress,
    ReplicaFailure,
    TensorBoardStatus,
    TFDistJobStatus,
)
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
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodSummary
from tfdist.planner import reported
from tfdist.planner.context import PlanContext
from tfdist.planner.gang_scheduling import (
    all_run,
    checkpoint_patches,
    pod_groups,
    scheduling_status,
    seconds_until_retry,
    served,
    starting_scheduler,
)
from tfdist.planner.kueue import has_outdated_workload, missing_reason, placements, workload_change
from tfdist.planner.plan import Event, GangDecision, GangFailure, Plan, ProbeTarget, min_delay
from tfdist.planner.revision import retained_specifications
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render import names
from tfdist.render.gang import GangName, Member
from tfdist.render.launch import uses_launcher
from tfdist.render.launcher_secret import launcher_secret
from tfdist.render.metadata import Manifest
from tfdist.status.accounts import with_accounts
from tfdist.status.conditions import Condition, is_true
from tfdist.status.counts import replica_counts
from tfdist.status.phase import is_suspended_or_suspending, training_succeeded
from tfdist.status.update import StatusFields, compose_status, throttled_write
from tfdist.timestamps import rfc3339

_NOT_STARTED: Final = GangStatus()
Part = TypeVar("Part", bound=ApiModel)


class PlanBuilder:
    """Collects decisions, conditions, events and status fields. One builder serves one reconcile."""

    def __init__(self, context: PlanContext) -> None:
        self._context = context
        self._states: dict[GangName, GangState] = {}
        self._create: list[tuple[GangState, tuple[Member, ...]]] = []
        self._conditions: list[Condition] = []
        self._fields: StatusFields = {}
        self._failures: list[ReplicaFailure] = []
        self._events: list[Event] = []
        self._probes: tuple[ProbeTarget, ...] = ()
        self._probe_id = ""
        self._unexplained_pod = ""
        self._deletes: list[str] = []
        self._requeue_delays: list[float | None] = []
        self._ended = False

    def add_decision(self, decision: GangDecision) -> None:
        """Add the decision about a gang; a failure in it is left to the caller."""
        state = self._at_start(decision.state, creates=bool(decision.create))
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
        if context.revision is None or missing_reason(context.view, context.job):
            return False
        # A gang with pods holds its quota; an outdated Workload covers other pods than the new ones (ADR 38).
        if state.pods or context.outdated_workload:
            return bool(state.pods)
        records = {**context.records, state.gang.name: state.record}
        return not has_outdated_workload(context.view, context.job, context.installation, records)

    def track_gang(self, state: GangState) -> None:
        """Add the state of a gang without an action."""
        self._states[state.gang.name] = self._at_start(state)

    def _at_start(self, state: GangState, *, creates: bool = False) -> GangState:
        """Return the state with the gang scheduler if an attempt begins now.

        All pods of an attempt have the same one, which is chosen when the first of them is created.
        """
        stored, record = self._context.records.get(state.gang.name), state.record
        # Chosen once per attempt and stored before its first pod: discovery may change between two pods (ADRs 36, 37).
        has_begun = state.pods if stored is None else stored.last_full_restart == record.last_full_restart
        has_pods = state.pods or record.has_run or record.completed or record.replaced
        # An attempt that has begun without pods may still change its scheduler: nothing of it is scheduled yet.
        if has_begun and (has_pods or not creates):
            return state
        scheduler = starting_scheduler(self._context, state.gang)
        return replace(state, record=record.changed(system=scheduler.system if scheduler else GangSystem.NONE))

    def set_conditions(self, *conditions: Condition) -> None:
        """Set conditions; of two of one type the later wins."""
        self._conditions += conditions

    def record_event(self, event: Event) -> None:
        """Publish an event after the status is written."""
        self._events.append(event)

    def set_fields(self, **fields: Unpack[StatusFields]) -> None:
        """Set fields of the status; None removes one."""
        self._fields.update(fields)

    def delete_pods(self, pods: Iterable[PodSummary]) -> None:
        """Delete pods that are not terminating already."""
        self._deletes += [p.name for p in pods if not p.deleting]

    def requeue_after(self, seconds: float | None) -> None:
        """Requeue the job after `seconds`; None adds no timer."""
        self._requeue_delays.append(seconds)

    def fail(self, failure: GangFailure) -> Plan:
        """Return the plan of a job that fails."""
        self.set_conditions(
            *(() if training_succeeded(self._context.view.status) else (self._stopped(failure),)),
            Condition(ConditionType.FAILED, True, failure.reason, failure.message),
        )
        self.record_event(Event(EventReason.FAILED, failure.message, warning=True))
        return self.complete()

    def complete(self) -> Plan:
        """Return the plan of a job that finishes; the caller sets the terminal condition."""
        self.set_fields(completion_time=rfc3339(self._context.now))
        self.set_conditions(*self._finished_conditions())
        # A finished job creates nothing, whatever was decided before its end.
        self._create.clear()
        self._probes = ()
        # The status with the end is written first (ADR 3); the next reconcile then cleans up.
        self._requeue_delays = [0.01]
        self._ended = True
        return self.build()

    def _finished_conditions(self) -> Iterable[Condition]:
        """Yield conditions that are no longer true of a finished job."""
        statuses = {c.type: c.status for c in self._conditions}
        for kind in (ConditionType.PODS_READY, ConditionType.RESTARTING, ConditionType.STALLED):
            if statuses.get(kind, is_true(self._context.view.status, kind)):
                yield Condition(kind, False, ConditionReason.JOB_FINISHED, "the job has ended")
        if is_suspended_or_suspending(self._context.view.status):
            yield Condition(ConditionType.SUSPENDED, False, ConditionReason.JOB_FINISHED, "the job has ended")

    def _stopped(self, failure: GangFailure) -> Condition:
        return Condition(ConditionType.RUNNING, False, failure.reason, failure.message)

    def build(self) -> Plan:
        """Return the plan: the status, the pods and the other objects that follow from the decisions."""
        context, view, job = self._context, self._context.view, self._context.job
        progress = self.progress()
        installation, status = context.installation, self._status(progress)
        runs = self._ended or all_run(self._states)
        report = reported.training_report(view, self._states.get(GangName.TRAINING))
        write = with_accounts(throttled_write(view, status), view, report.content if report else None, context.now)
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
        # The executor creates PodGroups before the pods that name them.
        groups = pod_groups(context, self._states.values(), [state.gang.name for state, _ in self._create])
        self.requeue_after(seconds_until_retry(context, self._states.values()))
        obsolete_groups = obsolete_pod_groups(job.metadata.name, records, groups)
        return Plan(
            status=write.status.to_json() if write.status else None,
            settled=write.counters_only or self._starts(deletes),
            objects=(
                *network_objects(job, generation, installation, view.pods, creates=bool(creates)),
                *served(view, groups),
            ),
            workload=workload_change(
                view, job, installation, context.now, records, outdated=context.outdated_workload, all_run=runs
            ),
            launcher_secret=self._launcher_secret(),
            creates=creates,
            patches=(
                *ownership_patches(job, view.pods, stale, generation),
                *sidecar_patches(view.pods, deletes),
                *checkpoint_patches(self._states, self._fields["scheduling"], progress),
            ),
            deletes=deletes,
            probes=self._probes,
            probe_id=self._probe_id,
            leader=reported.polled_leader(status, self._states),
            evaluator=reported.polled_evaluator(status, self._states),
            unexplained_pod="" if self._ended else self._unexplained_pod,
            events=tuple(self._events),
            tensorboard=() if view.problems else tensorboard_objects(job, installation),
            obsolete=(*(() if view.problems else obsolete_objects(job)), *obsolete_groups),
            failure_seen_at=context.failure_seen_at,
            completed={str(n): (s.record.attempt, s.record.completed) for n, s in self._states.items()},
            requeue_after_seconds=min_delay(self._requeue_delays),
        )

    def _starts(self, deletes: Sequence[str]) -> bool:
        """Return whether the plan only starts the job, or reports that it runs: nothing follows from writing that."""
        view, reasons = self._context.view, {event.reason for event in self._events}
        is_disturbed = self._ended or self._failures or deletes or self._probes or view.runtime.create_error
        # Gangs wait for each other, and a report or a pod that exists already may have something for the status.
        if is_disturbed or view.runtime.report or set(self._context.gangs) != {GangName.TRAINING}:
            return False
        if self._create:
            return not (reasons or view.pods or any(state.attempt for state, _ in self._create))
        return reasons == {EventReason.RUNNING}

    def _launcher_secret(self) -> Manifest | None:
        """Return the Secret for pods that are created, until all have run: the controller cannot see whether it exists.

        A replica that is replaced later needs the key that the others have; another Secret would not have it.
        """
        context = self._context
        for state, _ in self._create:
            job = context.specification_of(state) or context.job
            # Later pods need the key that the others have; the role may create Secrets but not read them (ADR 32).
            if not state.record.has_run and uses_launcher(job, state.gang):
                return launcher_secret(job, context.view.launcher_key)
        return None

    def _status(self, progress: Progress) -> TFDistJobStatus:
        """Return the new status, with the progress of training."""
        context, view = self._context, self._context.view
        self._fields["gangs"] = gangs = self._gangs()
        self._fields["specifications"] = (not self._ended and retained_specifications(view, gangs)) or None
        self._fields["evaluation"] = _if_set(self.evaluation())
        self._fields["export"] = _if_set(self.exports())
        self._fields["function_result"] = reported.function_result(view, self._states)
        counts = view.status.replicas or {}
        self._fields["replicas"] = replica_counts(context.gangs.values(), self._states.values(), counts)
        self._fields["scheduling"] = scheduling_status(context, self._states)
        if not view.problems:
            board = TensorBoardStatus(service=names.tensorboard(context.job.metadata.name))
            self._fields["tensor_board"] = board if context.spec.tensor_board else None
        return compose_status(
            view,
            tuple(self._states.values()),
            rfc3339(context.now),
            conditions=self._conditions,
            failures=self._failures,
            progress=_if_set(progress) if self._context.view.status.progress is None else progress,  # may be lost
            **self._fields,
        )

    def progress(self) -> Progress:
        """Return `status.progress`, see `reported.progress`."""
        return reported.progress(self._context.view, self._states.get(GangName.TRAINING))

    def evaluation(self) -> EvaluationStatus:
        """Return `status.evaluation`, see `reported.evaluation`."""
        return reported.evaluation(self._context.view, self._states)

    def exports(self) -> ExportStatus:
        """Return `status.export`, see `reported.exports`."""
        return reported.exports(self._context, self._states)

    def _gangs(self) -> dict[str, GangStatus]:
        stored = self._context.view.status.gangs or {}
        return stored | {str(name): self._complete_record(state) for name, state in self._states.items()}

    def _complete_record(self, state: GangState) -> GangStatus:
        """Return the record of a gang with its revision, and with its progress if a deadline needs that."""
        record, cadence = self._context.with_revision(state), cadence_of(self._context.view, state)
        # Only the deadline needs what an earlier controller has observed; without one the status stays smaller.
        if self._context.spec.run_policy.progress_deadline_seconds is None:
            return record.changed(progress=None)
        return record if cadence is None else record.changed(progress=to_status(cadence, state.gang.leader.role))

    def _record(self, gang: GangName) -> GangStatus:
        state = self._states.get(gang)
        return state.record if state else self._context.records.get(gang, _NOT_STARTED)


def _if_set(part: Part) -> Part | None:
    """Return a part of the status; None if none of its fields is set."""
    return part if any(value is not None for value in vars(part).values()) else None
