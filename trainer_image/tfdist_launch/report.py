"""What a launcher's report port tells: the program's own report, and of the leader the whole gang's."""

from collections.abc import Iterator

from tfdist.contract import Phase, ReplicaJob
from tfdist.contract_reports import GangReport, MemberReport, ProgressReport
from tfdist_launch.gang import Seat, Standing
from tfdist_launch.leader import Leader


def own_report(
    job: ReplicaJob, number: int, told: ProgressReport | None, before: ProgressReport | None = None
) -> ProgressReport:
    """Return this replica's report: what its program has `told`, or the one `before` it, from which it starts anew."""
    if told is None:
        first = ProgressReport(role=job.role, index=job.index, attempt=job.attempt, phase=Phase.STARTING)
        told = (before or first).model_copy(update={"phase": Phase.STARTING})
    return told.model_copy(update={"round": max(number, 0)})


def gang_report(leader: Leader, now: float) -> GangReport:
    """Return the gang as its leader sees it."""
    return GangReport(
        members=[_member(seat) for seat in leader.seats],
        failures=leader.history.failures,
        restarts=leader.limits.restarts,
        round=leader.round,
        waiting_for=list(waiting_for(leader, now)),
    )


def waiting_for(leader: Leader, now: float) -> Iterator[str]:
    """Yield what the next round waits for, in words."""
    if leader.standing in {Standing.RUNNING, Standing.OVER}:
        return
    for seat in leader.seats:
        if seat.link is None:
            yield f"{seat.name}: its launcher has not called"
        elif seat.leaving:
            yield f"{seat.name}: its pod is being taken away; its replacement has not called"
        elif seat.active:
            yield f"{seat.name}: its program is being stopped"
    if leader.not_before > now:
        yield f"the next round begins in {leader.not_before - now:.0f} s"


def _member(seat: Seat) -> MemberReport:
    report = seat.report
    return MemberReport(
        role=seat.member.role,
        index=seat.member.index,
        alive=seat.link is not None and seat.active and (seat.beat is None or seat.beat.alive),
        phase=report.phase if report else None,
        step=report.step if report else None,
        input_wait_millis=report.input_wait_millis if report else None,
    )
