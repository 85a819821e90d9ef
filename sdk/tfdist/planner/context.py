"""The context of one reconcile of a job that has not finished: the input of all decisions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import ReplicaFailure
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.contract import Role
from tfdist.failure_classification import Action, classify
from tfdist.observed.gang_record import UNKNOWN_REVISION, stored_records
from tfdist.observed.gang_state import GangState, gang_state
from tfdist.observed.job_view import JobView
from tfdist.observed.pod import PodState
from tfdist.planner.kueue import has_outdated_workload, queue_wait
from tfdist.planner.revision import SpecRevision
from tfdist.render.fingerprint import with_policies_of
from tfdist.render.gang import Gang, GangName, gangs
from tfdist.render.installation import Installation
from tfdist.render.launch import uses_launcher
from tfdist.render.template import starts_trainer
from tfdist.scheduling.queue import QueueWait
from tfdist.status.phase import is_suspended_or_suspending
from tfdist.termination import termination_message
from tfdist.timestamps import parse_time

MINIMUM_OBSERVATION_SECONDS: Final = 60.0
"""How long a controller observes a job before a deadline fails it that passed while no controller led."""


@dataclass(frozen=True)
class PlanContext:
    """The view of a job, its valid specification, the time, and the installation.

    Derived values, such as the state of each gang, are computed at their first use and cached in the context, which
    therefore has no slots.
    """

    view: JobView
    job: TFDistJob
    now: datetime
    installation: Installation
    revision: SpecRevision | None
    """Revision for new attempts; None while the specification is invalid and no valid one is known."""
    next_records: Mapping[GangName, GangStatus] = field(default_factory=dict)
    """Records of gangs whose attempt has ended, though the status does not have it yet."""

    @property
    def spec(self) -> TFDistJobSpec:
        """The job's specification."""
        return self.job.spec

    @cached_property
    def gangs(self) -> Mapping[GangName, Gang]:
        """The gangs of the job, in start order."""
        return {gang.name: gang for gang in gangs(self.job)}

    @cached_property
    def records(self) -> Mapping[GangName, GangStatus]:
        """The records of the gangs that have started, from the status."""
        return stored_records(self.view.status)

    @cached_property
    def states(self) -> Mapping[GangName, GangState]:
        """The states of the gangs, in start order."""
        return {name: self._state(gang) for name, gang in self.gangs.items()}

    def _state(self, gang: Gang) -> GangState:
        """Return the state of a gang; a replica counts as completed if failurePolicy ignores its failure.

        The end of a pod that a suspension deletes is not a failure, so failurePolicy does not apply.
        """
        record = self._record(gang)
        state = gang_state(gang, record, self.view.pods)
        # An ignored failure counts as completed here, so that no later decision has to know the policy.
        ignored_replicas = {
            p.replica
            for p in state.failed_or_terminating
            if not (p.deleting and self._stops) and classify(p, self.spec.failure_policy).action is Action.IGNORE
        }
        if not ignored_replicas:
            return state
        record_with_ignored = state.record.changed(completed=state.record.completed | ignored_replicas)
        return gang_state(gang, record_with_ignored, self.view.pods)

    @property
    def _stops(self) -> bool:
        """Whether the job is suspended or being suspended, or its queue does not let it run."""
        is_queued = self.queue_wait is not None
        return is_queued or self.spec.run_policy.suspend or is_suspended_or_suspending(self.view.status)

    @cached_property
    def queue_wait(self) -> QueueWait | None:
        """Why the queue of the job does not let it run."""
        return queue_wait(self.view, self.job, outdated=self.outdated_workload)

    @cached_property
    def outdated_workload(self) -> bool:
        """Whether the job holds quota for other pods than it would start now."""
        return has_outdated_workload(self.view, self.job, self.installation, self.records)

    def _record(self, gang: Gang) -> GangStatus:
        """Return the record of a gang: from the status, and the successes seen by this process since its last write."""
        if gang.name in self.next_records:
            return self.next_records[gang.name]
        record = self.records.get(gang.name) or self._derived_record(gang)
        attempt, completed = self.view.runtime.completed.get(str(gang.name), (-1, frozenset()))
        return record.changed(completed=record.completed | completed) if attempt == record.attempt else record

    def _derived_record(self, gang: Gang) -> GangStatus:
        """Return the record of a gang without one in the status: new, or derived from the labels of its pods.

        Pods without a record mean that the status was overwritten. The attempt of which their launchers' token is, is
        lost, so that no new pod can join them: their revision counts as unknown, and the gang restarts as a whole if
        one is missing.
        """
        roles = {member.role for member in gang.members}
        attempts = [p.attempt for p in self.view.pods if p.role in roles]
        if not attempts:
            return GangStatus()
        # The attempt that the launchers' token was derived from is lost, so no new pod could join them (ADR 32).
        revision = UNKNOWN_REVISION if uses_launcher(self.job, gang) else ""
        return GangStatus(attempt=max(attempts), last_full_restart=max(attempts), template=revision)

    @property
    def restart_requested(self) -> bool:
        """Whether the annotation requests a restart that is still due; on a new job it requests none."""
        requested_at, status = self.view.stored.restarted_at, self.view.status
        return bool(requested_at) and requested_at != status.restarted_at and status.gangs is not None

    def runs_trainer(self, role: Role) -> bool:
        """Return whether a role runs the trainer, which reports its progress and its result; other programs need not.

        It depends on the command: with `training`, too, an image or a command of the user's may run another program.
        """
        return starts_trainer(self.job, role, self.installation.pod_defaults)

    def is_outdated(self, state: GangState) -> bool:
        """Return whether pods of a gang use another revision than a new attempt would."""
        return self.revision is not None and self.revision.differs_from(self.with_revision(state))

    def with_revision(self, state: GangState) -> GangStatus:
        """Return the record of a gang with the revision of its pods; before it has pods, with the current revision.

        A later generation with an equal fingerprint counts as the revision of the pods, and so does an equal generation
        whose fingerprint was computed by another version of the controller.
        """
        record, revision = state.record, self.revision
        has_begun = bool(state.pods or record.has_run or record.completed)
        if revision is None or (has_begun and revision.differs_from(record)):
            return record
        return record.changed(template=revision.template, generation=revision.generation)

    def specification_of(self, state: GangState) -> TFDistJob | None:
        """Return the specification of an attempt's pods with the current policies; None if it is not known."""
        if self.revision is None:
            return None
        if not self.is_outdated(state):
            return self.revision.job
        older_job = self.view.stored.older.get(state.record.generation)
        return with_policies_of(older_job, self.revision.job) if older_job else None

    def newest_checkpoint(self, state: GangState) -> int:
        """Return the step of the newest reported checkpoint; -1 without one.

        The progress of an evaluator is the newest checkpoint that it has evaluated, not the newest that training wrote.
        """
        steps = self._evaluated_steps() if state.gang.name is GangName.EVALUATOR else self._checkpoints(state)
        return max(steps, default=-1)

    def _evaluated_steps(self) -> Iterator[int]:
        stored = self.view.status.evaluation
        if stored and stored.latest:
            yield stored.latest.step
        if self.view.runtime.evaluated and self.view.runtime.evaluated.evaluation:
            yield self.view.runtime.evaluated.evaluation.step

    def _checkpoints(self, state: GangState) -> Iterator[int]:
        stored = self.view.status.progress
        if stored and stored.last_checkpoint:
            yield stored.last_checkpoint.step
        if self.view.runtime.report and self.view.runtime.report.content.last_checkpoint:
            yield self.view.runtime.report.content.last_checkpoint.step
        for pod in state.pods:
            message = termination_message(pod.message) if pod.ended else None
            if message and message.last_checkpoint:
                yield message.last_checkpoint.step

    @cached_property
    def failure_seen_at(self) -> Mapping[str, datetime]:
        """Time at which this process first observed a pod as failed or terminating, by name of the pod."""
        pod_names = (p.name for p in self.view.pods if p.state is PodState.FAILED or p.deleting)
        return {name: self.view.runtime.failure_seen_at.get(name, self.now) for name in pod_names}

    def seconds_since(self, moment: str) -> float:
        """Return the seconds since `moment` (RFC 3339)."""
        return (self.now - parse_time(moment)).total_seconds()

    def remaining_seconds(self, limit: float, since: str) -> float:
        """Return the seconds until a deadline, `limit` seconds after `since` (RFC 3339; "" for now).

        Time without a controller counts, except that a job is observed for up to `MINIMUM_OBSERVATION_SECONDS` before
        it fails: until then its pods may not exist, and nodes may not have reported why one does not start.
        """
        remaining, observed = limit - (self.seconds_since(since) if since else 0.0), self.view.runtime.observed_since
        if not observed:
            return remaining
        # Time without a controller counts, but no deadline fails a job that nobody has looked at.
        return max(remaining, min(limit, MINIMUM_OBSERVATION_SECONDS) - self.seconds_since(observed))

    def last_root_cause(self, gang: Gang) -> ReplicaFailure | None:
        """Return the newest failure that ended an attempt of `gang`."""
        roles = gang.sizes()
        failures = self.view.status.failures or ()
        return next((f for f in reversed(failures) if f.root_cause and f.role in roles), None)
