"""One look at one valid job that has not ended: what every part of planning reads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.exits import Action, verdict
from tfdist.render.gang import Gang, GangName
from tfdist_operator.observed.gang import GangState, gang_state, member_of
from tfdist_operator.observed.record import GangRecord, replica_name, stored_record
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner.plan import Settings
from tfdist_operator.policy.words import last_words
from tfdist_operator.status.clock import parse_time


@dataclass(frozen=True, slots=True)
class Look:
    """The view of a job, its specification, the time, and the installation's settings."""

    view: JobView
    job: TFDistJob
    now: datetime
    settings: Settings

    @property
    def spec(self) -> TFDistJobSpec:
        """The job's specification."""
        return self.job.spec

    def state(self, gang: Gang) -> GangState:
        """Return how a gang is now; a replica whose failure the job's rules ignore counts as done."""
        record = self._record(gang)
        state = gang_state(gang, record, self.view.pods)
        ignored = {
            replica_name(member_of(p))
            for p in state.lost
            if verdict(p, self.spec.failure_policy).action is Action.IGNORE
        }
        if not ignored:
            return state
        done = replace(state.record, completed=state.record.completed | ignored)
        return gang_state(gang, done, self.view.pods)

    def _record(self, gang: Gang) -> GangRecord:
        """Return what is remembered of a gang: by the status, and by this process since the last write."""
        record = stored_record(self.view.status, gang.name) or self._unrecorded(gang)
        attempt, completed = self.view.completed.get(str(gang.name), (-1, frozenset()))
        return replace(record, completed=record.completed | completed) if attempt == record.attempt else record

    def _unrecorded(self, gang: Gang) -> GangRecord:
        """Return the record of a gang that the status does not know: new, or as its pods tell."""
        roles = {member.role for member in gang.members}
        attempt = max((p.attempt for p in self.view.pods if p.role in roles), default=0)
        return GangRecord(attempt=attempt, floor=attempt)

    def newest_checkpoint(self, state: GangState) -> int:
        """Return the step of the newest checkpoint that anybody has told of; -1 without one.

        An evaluator gets on by what it has scored, and not by what training writes meanwhile.
        """
        steps = self._scored() if state.gang.name is GangName.EVALUATOR else self._checkpoints(state)
        return max(steps, default=-1)

    def _scored(self) -> Iterator[int]:
        stored = self.view.status.get("evaluation", {}).get("latest")
        if stored:
            yield int(stored["step"])
        if self.view.evaluated and self.view.evaluated.evaluation:
            yield self.view.evaluated.evaluation.step

    def _checkpoints(self, state: GangState) -> Iterator[int]:
        stored = self.view.status.get("progress", {}).get("lastCheckpoint")
        if stored:
            yield int(stored["step"])
        if self.view.report and self.view.report.content.last_checkpoint:
            yield self.view.report.content.last_checkpoint.step
        for pod in state.pods:
            words = last_words(pod) if pod.ended else None
            if words and words.last_checkpoint:
                yield words.last_checkpoint.step

    def seconds_since(self, moment: str) -> float:
        """Return how long ago `moment` (RFC 3339) is."""
        return (self.now - parse_time(moment)).total_seconds()

    def last_root_cause(self, gang: Gang) -> dict[str, Any] | None:
        """Return the newest failure that ended an attempt of `gang`."""
        roles = gang.sizes()
        failures = self.view.status.get("failures", ())
        return next((f for f in reversed(failures) if f["rootCause"] and f["role"] in roles), None)
