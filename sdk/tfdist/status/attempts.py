"""`status.attempts`: the attempts of a job, and the rounds of those that launchers restart in place.

They derive from two statuses, the stored one and the one to write: an attempt is added with the write that begins it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.history_status import MAX_ATTEMPTS, AttemptStatus
from tfdist.api.status import CheckpointStatus, ConditionType, JobPhase, Progress, ReplicaFailure, TFDistJobStatus
from tfdist.contract import Role, replica_name
from tfdist.contract_reports import ProgressReport
from tfdist.outcome import find_condition
from tfdist.reasons import ConditionReason
from tfdist.status.conditions import is_true
from tfdist.status.phase import SUSPENDED_PHASES, is_terminal, training_succeeded
from tfdist.timestamps import parse_time, rfc3339

_AFTER_TRAINING: Final = frozenset({str(Role.EVALUATOR), str(Role.EVALUATION)})
_STOPPED: Final = frozenset({JobPhase.SUSPENDED, JobPhase.QUEUED})


@dataclass(frozen=True, slots=True)
class Steps:
    """Training steps that a write reports."""

    step: int
    """Number of completed steps."""
    begins_at: int | None
    """Step of the checkpoint that the attempt began from, with its first reported step."""
    seconds: float
    """Duration of a step."""
    longest_seconds: float
    """Seconds since the attempt began: its steps cannot have taken longer, whatever is reported."""


class Attempts:
    """The attempts after one write of the status."""

    def __init__(
        self, old: TFDistJobStatus, new: TFDistJobStatus, report: ProgressReport | None, now: datetime
    ) -> None:
        """Take the stored status, the one to write, and the last report of the leader of the current attempt."""
        self._old, self._new, self._now = old, new, now.replace(microsecond=0)
        self._report = report
        self.entries = list(old.attempts or ())
        self.steps: Steps | None = None
        record = _record(new)
        if record is not None:
            self._update(record, trains=_trains(new))
        self.entries = self.entries[-MAX_ATTEMPTS:]

    def _update(self, record: GangStatus, *, trains: bool) -> None:
        current, end = self._current, self._end(trains=trains)
        ends = current is not None and bool(end or record.attempt > current.attempt)
        if not self._begins_round():
            self._count_steps(ends=ends)
        if current is not None and ends:
            self._close(end or self._planned_reason())
        if not end and (not self.entries or record.attempt > self.entries[-1].attempt):
            self._open(record)
        if self._current is not None:
            self._set_round(record)
        self._set_recovery()

    @property
    def _current(self) -> AttemptStatus | None:
        return self.entries[-1] if self.entries and self.entries[-1].ended_at is None else None

    def _change(self, place: int = -1, **changes: Any) -> None:
        """Change fields of the last attempt, or of another one."""
        self.entries[place] = self.entries[place].model_copy(update=changes)

    # Begin and end

    def _end(self, *, trains: bool) -> str:
        """Return the reason why no attempt runs; "" if one runs or follows."""
        new = self._new
        if trains and training_succeeded(new):
            return str(ConditionReason.TRAINING_SUCCEEDED)
        if is_terminal(new):
            kind = ConditionType.FAILED if is_true(new, ConditionType.FAILED) else ConditionType.SUCCEEDED
        elif new.phase in _STOPPED:
            kind = ConditionType.SUSPENDED
        else:
            return ""
        condition = find_condition(new, kind)
        return condition.reason if condition else ""

    def _planned_reason(self) -> str:
        """Return the reason of a restart without a failure."""
        if self._old.phase is JobPhase.SUSPENDING:
            return str(ConditionReason.SUSPENDED)
        restarting = find_condition(self._new, ConditionType.RESTARTING)
        return restarting.reason if restarting else str(ConditionReason.RESTARTING)

    def _open(self, record: GangStatus, *, since: str = "") -> None:
        started, step = since or rfc3339(self._now), None
        if not self.entries:
            first_start = self._old.start_time or self._old.active_since
            started = first_start if first_start and record.attempt == 0 else started
        elif self._trains_on(record):
            step = self.entries[-1].to_step
        self.entries.append(
            AttemptStatus(
                attempt=record.attempt,
                started_at=started,
                from_step=self._checkpoint(started) if step is None else step,
                to_step=step,
            )
        )

    def _trains_on(self, record: GangStatus) -> bool:
        """Return whether training continues without the replica that is replaced."""
        training = (self._old.gangs or {}).get("training")
        if training is None or self.entries[-1].to_step is None:
            return False
        return not record.in_place and training.last_full_restart == record.last_full_restart

    def _close(self, reason: str) -> None:
        """End the last attempt."""
        entry = self.entries[-1]
        self._change(ended_at=rfc3339(self._now), reason=reason)
        succeeded = reason == ConditionReason.TRAINING_SUCCEEDED or is_true(self._new, ConditionType.SUCCEEDED)
        cause = None if succeeded or reason in SUSPENDED_PHASES else self._cause(entry)
        if cause is None:
            return
        end = min(self._now, max(_moment(cause.time, self._now), parse_time(entry.started_at)))
        replica = replica_name(Role(cause.role), cause.index)
        node = cause.node or entry.node
        self._change(ended_at=rfc3339(end), reason=cause.reason, root_cause=replica, node=node)

    def _cause(self, entry: AttemptStatus) -> ReplicaFailure | None:
        """Return the root cause of the end of an attempt: recorded by this write, or since the attempt began."""
        stored_failures, start = self._old.failures or (), parse_time(entry.started_at)
        causes = [f for f in self._root_causes() if f not in stored_failures or _moment(f.time, start) > start]
        of_round = [f for f in causes if entry.round is not None and f.round == entry.round]
        return next(iter([*reversed(of_round), *reversed(causes)]), None)

    def _root_causes(self) -> Iterator[ReplicaFailure]:
        trains = _trains(self._new)
        failures = self._new.failures or ()
        return (f for f in failures if f.root_cause and (not trains or f.role not in _AFTER_TRAINING))

    # Rounds

    @property
    def _newest_round(self) -> int:
        gang = self._report.gang if self._report else None
        return gang.round if gang else -1

    def _begins_round(self) -> bool:
        """Return whether the report is of a later round than the current one."""
        current = self._current
        return current is not None and current.round is not None and self._newest_round > current.round

    def _set_round(self, record: GangStatus) -> None:
        """Set the round of the current attempt, or end its last round and add those that have begun since."""
        while self._begins_round():
            last = self.entries[-1]
            self._close(self._planned_reason())
            numbers = (f.round for f in self._root_causes() if f.round is not None)
            later_rounds = [number for number in numbers if (last.round or 0) < number < self._newest_round]
            self._open(record, since=self.entries[-1].ended_at or "")
            self._change(round=min([*later_rounds, self._newest_round]))
            if not self._begins_round():
                self._count_steps(ends=False)
        previous = self.entries[-2] if len(self.entries) > 1 else None
        previous_round = -1 if previous is None or previous.round is None else previous.round
        is_new = self._newest_round > previous_round or (previous.attempt if previous else 0) < record.last_full_restart
        if self._newest_round >= 0 and self.entries[-1].round is None and is_new:
            self._change(round=self._newest_round)

    # Steps and recovery

    def _count_steps(self, *, ends: bool) -> None:
        """Set the steps of the current attempt from progress that is new in this write.

        Without a report, progress is from the termination message of the last leader: of an attempt that `ends`, or of
        the one before, whose pods save after the next attempt has begun.
        """
        entry = self._current
        old, new = (status.progress or Progress() for status in (self._old, self._new))
        if entry is None:
            return
        is_first, begins_at = entry.to_step is None, entry.from_step
        if is_first:
            begins_at = self._checkpoint(entry.started_at)
            self._change(from_step=begins_at)
        is_new = (old.step, old.reported_at) != (new.step, new.reported_at)
        is_of_attempt = self._report is not None or ends or not is_first
        if new.step is None or not (is_new and is_of_attempt):
            return
        begins_at = min(begins_at or 0, new.step) if is_first else None
        self._change(to_step=new.step, **({} if begins_at is None else {"from_step": begins_at}))
        millis = new.step_time_millis or old.step_time_millis or 0.0
        elapsed = max(0.0, (self._now - parse_time(entry.started_at)).total_seconds())
        self.steps = Steps(new.step, begins_at, millis / 1000, elapsed)

    def _checkpoint(self, started_at: str) -> int:
        """Return the step of the newest checkpoint from before an attempt; 0 without one."""
        stored, reported = _checkpoint_of(self._old), _checkpoint_of(self._new)
        if stored is not None:
            return stored.step
        start = parse_time(started_at)
        return reported.step if reported and reported.time and _moment(reported.time, start) < start else 0

    def _set_recovery(self) -> None:
        """Set the time until all replicas ran again, once they run."""
        current, new = self._current, self._new
        if current is None or not is_true(new, ConditionType.PODS_READY) or is_true(new, ConditionType.RESTARTING):
            return
        for place in reversed(range(len(self.entries) - 1)):
            entry = self.entries[place]
            if entry.seconds_to_recover is not None:
                return
            start = current.started_at if entry.reason in SUSPENDED_PHASES else entry.ended_at
            seconds = (self._now - parse_time(start or current.started_at)).total_seconds()
            self._change(place, seconds_to_recover=max(0, round(seconds)))


def _record(status: TFDistJobStatus) -> GangStatus | None:
    """Return the state of the gang whose attempts are counted."""
    gangs = status.gangs or {}
    return gangs.get("training") or gangs.get("evaluation")


def _trains(status: TFDistJobStatus) -> bool:
    return "training" in (status.gangs or {})


def _checkpoint_of(status: TFDistJobStatus) -> CheckpointStatus | None:
    return status.progress.last_checkpoint if status.progress else None


def _moment(text: str, default: datetime) -> datetime:
    """Return a time that a pod may have written; `default` if it is malformed."""
    try:
        return parse_time(text)
    except ValueError:
        return default
