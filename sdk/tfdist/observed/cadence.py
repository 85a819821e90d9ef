"""Progress of an attempt over time: from its reports, and from the status after a restart of the controller."""

from collections.abc import Callable
from typing import Final

from tfdist.api.gang_status import GangProgress
from tfdist.api.status import TFDistJobStatus
from tfdist.contract import Phase, Role
from tfdist.contract_reports import ProgressReport
from tfdist.observed.gang_record import stored_records
from tfdist.observed.gang_state import GangState
from tfdist.observed.job_view import JobView, StepCadence
from tfdist.restarts.stall import progress_of
from tfdist.timestamps import parse_time

_ABSENT: Final = "-"
"""Stands for an absent part of a position."""


def with_report(
    known: StepCadence | None, status: Callable[[], TFDistJobStatus], content: ProgressReport, now: str
) -> StepCadence:
    """Return the cadence after a report.

    Args:
        known: the cadence so far, by this process; None before its first report of the job.
        status: returns the status of the job, with the cadence that an earlier process stored; called if `known` is
            None.
        content: the report.
        now: when it was received, RFC 3339.
    """
    previous = known or _stored_cadence(status(), content)
    position = _position(content)
    if previous is None or (previous.attempt, previous.role) != (content.attempt, content.role):
        return StepCadence(content.attempt, now, role=content.role, position=position)
    if previous.position == position:
        return previous
    pause = (parse_time(now) - parse_time(previous.last_progress_at)).total_seconds()
    if known is None:  # no process has seen the progress meanwhile: the time is not a pause of the training
        pause = 0.0
    longest = max(previous.longest_pause_seconds, pause)
    return StepCadence(content.attempt, now, longest, previous.progress_count + 1, content.role, position)


def cadence_of(view: JobView, state: GangState) -> StepCadence | None:
    """Return the cadence of a gang's current leader, as this process has seen it; None before its first report."""
    cadence, leader = view.runtime.cadence, state.gang.leader
    if cadence is None or cadence.attempt != state.record.attempt_of(leader.name):
        return None
    return cadence if cadence.role in {None, leader.role} else None


def has_begun(cadence: StepCadence) -> bool:
    """Return whether the program itself has reported: until it does, its launcher reports that it starts, for ever."""
    return cadence.position.split("/")[1:3] != [str(Phase.STARTING), _ABSENT]


def to_status(cadence: StepCadence, role: Role) -> GangProgress:
    """Return the cadence of the leader with this role as the status stores it."""
    return GangProgress(
        attempt=cadence.attempt,
        role=str(role),
        position=cadence.position,
        changed_at=cadence.last_progress_at,
        longest_pause_seconds=round(cadence.longest_pause_seconds, 1),
        changes=cadence.progress_count,
    )


def from_status(stored: GangProgress) -> StepCadence:
    """Return a stored cadence."""
    return StepCadence(
        stored.attempt,
        stored.changed_at,
        stored.longest_pause_seconds,
        stored.changes,
        Role(stored.role),
        stored.position,
    )


def _stored_cadence(status: TFDistJobStatus, content: ProgressReport) -> StepCadence | None:
    """Return the stored cadence of the attempt and leader that report; None without one."""
    for record in stored_records(status).values():
        progress = record.progress
        if progress is not None and (progress.attempt, progress.role) == (content.attempt, str(content.role)):
            return from_status(progress)
    return None


def _position(content: ProgressReport) -> str:
    """Return the progress of a report as text, for the status."""
    return "/".join(_ABSENT if part is None else str(part) for part in progress_of(content))
