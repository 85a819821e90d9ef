"""`status.attempts`: the attempts of a job, and the rounds of those that launchers restart in place.

They derive from two statuses, the stored one and the one to write: an attempt is added with the write that begins it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from tfdist.api.history_status import MAX_ATTEMPTS
from tfdist.api.status import ConditionType, JobPhase
from tfdist.contract import Role, replica_name
from tfdist.contract_reports import ProgressReport
from tfdist.reasons import ConditionReason
from tfdist.status.conditions import find, is_true
from tfdist.status.phase import SUSPENDED_PHASES, is_terminal, training_succeeded
from tfdist.timestamps import parse_time, rfc3339

Entry = dict[str, Any]
Status = Mapping[str, Any]

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

    def __init__(self, old: Status, new: Status, report: ProgressReport | None, now: datetime) -> None:
        """Take the stored status, the one to write, and the last report of the leader of the current attempt."""
        self._old, self._new, self._now = old, new, now.replace(microsecond=0)
        self._report = report
        self.entries: list[Entry] = [dict(entry) for entry in old.get("attempts", ())]
        self.steps: Steps | None = None
        records = new.get("gangs", {})
        self._record: Mapping[str, Any] | None = records.get("training") or records.get("evaluation")
        if self._record is not None:
            self._update(self._record, trains="training" in records)
        self.entries = self.entries[-MAX_ATTEMPTS:]

    def _update(self, record: Mapping[str, Any], *, trains: bool) -> None:
        current, end = self._current, self._end(trains=trains)
        ends = current is not None and bool(end or record["attempt"] > current["attempt"])
        if not self._begins_round():
            self._count_steps(ends=ends)
        if current is not None and ends:
            self._close(current, end or self._planned_reason())
        if not end and (not self.entries or record["attempt"] > self.entries[-1]["attempt"]):
            self._open(record)
        if self._current is not None:
            self._set_round(record)
        self._set_recovery()

    @property
    def _current(self) -> Entry | None:
        return self.entries[-1] if self.entries and "endedAt" not in self.entries[-1] else None

    # Begin and end

    def _end(self, *, trains: bool) -> str:
        """Return the reason for which no attempt runs; "" while one does, or will."""
        new = self._new
        if trains and training_succeeded(new):
            return str(ConditionReason.TRAINING_SUCCEEDED)
        if is_terminal(new):
            kind = ConditionType.FAILED if is_true(new, ConditionType.FAILED) else ConditionType.SUCCEEDED
            return str((find(new, kind) or {})["reason"])
        return str((find(new, ConditionType.SUSPENDED) or {})["reason"]) if new["phase"] in _STOPPED else ""

    def _planned_reason(self) -> str:
        """Return the reason of a restart without a failure."""
        if self._old.get("phase") == JobPhase.SUSPENDING:
            return str(ConditionReason.SUSPENDED)
        restarting = find(self._new, ConditionType.RESTARTING)
        return str(restarting["reason"]) if restarting else str(ConditionReason.RESTARTING)

    def _open(self, record: Mapping[str, Any], *, since: str = "") -> None:
        entry: Entry = {"attempt": record["attempt"], "startedAt": since or rfc3339(self._now)}
        if not self.entries:
            begun = self._old.get("startTime") or self._old.get("activeSince")
            entry["startedAt"] = begun if begun and record["attempt"] == 0 else entry["startedAt"]
        entry["fromStep"] = self._checkpoint(entry)
        if self._trains_on(record):
            entry |= dict.fromkeys(("fromStep", "toStep"), self.entries[-1]["toStep"])
        self.entries.append(entry)

    def _trains_on(self, record: Mapping[str, Any]) -> bool:
        """Return whether training continues without the replica that is replaced."""
        before = self._old.get("gangs", {}).get("training")
        if before is None or not self.entries or "toStep" not in self.entries[-1]:
            return False
        return not record.get("launched") and before.get("floor", 0) == record.get("floor", 0)

    def _close(self, entry: Entry, reason: str) -> None:
        entry["endedAt"], entry["reason"] = rfc3339(self._now), reason
        succeeded = reason == ConditionReason.TRAINING_SUCCEEDED or is_true(self._new, ConditionType.SUCCEEDED)
        cause = None if succeeded or reason in SUSPENDED_PHASES else self._cause(entry)
        if cause is None:
            return
        ended = min(self._now, max(_moment(cause["time"], self._now), parse_time(entry["startedAt"])))
        entry["endedAt"], entry["reason"] = rfc3339(ended), cause["reason"]
        entry["rootCause"] = replica_name(Role(cause["role"]), cause["index"])
        if cause.get("node"):
            entry["node"] = cause["node"]

    def _cause(self, entry: Entry) -> Mapping[str, Any] | None:
        """Return the root cause of the end of an attempt: recorded by this write, or since the attempt began."""
        known, begun = self._old.get("failures", ()), parse_time(entry["startedAt"])
        found = [f for f in self._root_causes() if f not in known or _moment(f["time"], begun) > begun]
        of_round = [f for f in found if "round" in entry and f.get("round") == entry["round"]]
        return next(iter([*reversed(of_round), *reversed(found)]), None)

    def _root_causes(self) -> Iterator[Mapping[str, Any]]:
        trains = "training" in self._new.get("gangs", {})
        failures = self._new.get("failures", ())
        return (f for f in failures if f["rootCause"] and (not trains or f["role"] not in _AFTER_TRAINING))

    # Rounds

    @property
    def _newest_round(self) -> int:
        gang = self._report.gang if self._report else None
        return gang.round if gang else -1

    def _begins_round(self) -> bool:
        """Return whether the report is of a later round than the current one."""
        return self._current is not None and self._newest_round > self._current.get("round", self._newest_round)

    def _set_round(self, record: Mapping[str, Any]) -> None:
        """Set the round of the current attempt, or end its last round and add those that have begun since."""
        while self._begins_round():
            last = self.entries[-1]
            self._close(last, self._planned_reason())
            later = [f["round"] for f in self._root_causes() if last["round"] < f.get("round", -1) < self._newest_round]
            self._open(record, since=last["endedAt"])
            self.entries[-1]["round"] = min([*later, self._newest_round])
            if not self._begins_round():
                self._count_steps(ends=False)
        before = self.entries[-2] if len(self.entries) > 1 else {}
        is_new = self._newest_round > before.get("round", -1) or before.get("attempt", 0) < record.get("floor", 0)
        if self._newest_round >= 0 and "round" not in self.entries[-1] and is_new:
            self.entries[-1]["round"] = self._newest_round

    # Steps and recovery

    def _count_steps(self, *, ends: bool) -> None:
        """Set the steps of the current attempt from progress that is new in this write.

        Without a report, progress is from the termination message of the last leader: of an attempt that `ends`, or of
        the one before, whose pods save after the next attempt has begun.
        """
        entry, old, new = self._current, self._old.get("progress", {}), self._new.get("progress", {})
        if entry is None:
            return
        if "toStep" not in entry:
            entry["fromStep"] = self._checkpoint(entry)
        is_new = (old.get("step"), old.get("reportedAt")) != (new.get("step"), new.get("reportedAt"))
        is_of_attempt = self._report is not None or ends or "toStep" in entry
        if new.get("step") is None or not (is_new and is_of_attempt):
            return
        begins_at = None
        if "toStep" not in entry:
            begins_at = entry["fromStep"] = min(entry["fromStep"], new["step"])
        entry["toStep"] = new["step"]
        millis = new.get("stepTimeMillis") or old.get("stepTimeMillis") or 0.0
        elapsed = max(0.0, (self._now - parse_time(entry["startedAt"])).total_seconds())
        self.steps = Steps(new["step"], begins_at, millis / 1000, elapsed)

    def _checkpoint(self, entry: Entry) -> int:
        """Return the step of the newest checkpoint from before an attempt; 0 without one."""
        stored = self._old.get("progress", {}).get("lastCheckpoint")
        if stored:
            return int(stored["step"])
        found = self._new.get("progress", {}).get("lastCheckpoint", {})
        begun = parse_time(entry["startedAt"])
        return int(found["step"]) if "time" in found and _moment(found["time"], begun) < begun else 0

    def _set_recovery(self) -> None:
        """Set how long it took until all replicas ran again, once they do."""
        current, new = self._current, self._new
        if current is None or not is_true(new, ConditionType.PODS_READY) or is_true(new, ConditionType.RESTARTING):
            return
        for entry in reversed(self.entries[:-1]):
            if "secondsToRecover" in entry:
                return
            since = current["startedAt"] if entry["reason"] in SUSPENDED_PHASES else entry["endedAt"]
            entry["secondsToRecover"] = max(0, round((self._now - parse_time(since)).total_seconds()))


def _moment(text: str, default: datetime) -> datetime:
    """Return a time that a pod may have written."""
    try:
        return parse_time(text)
    except ValueError:
        return default
