"""The reports at a launcher's report port: the replica's progress, and at the leader a summary of the gang.

The summary has the same size for 10,000 members as for 32, because the controller reads it regularly, up to a limit.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Final

from tfdist.contract import Phase, ReplicaJob
from tfdist.contract_reports import MAX_REPORTED_MEMBERS, MAX_WAITING_FOR, GangReport, MemberReport, ProgressReport
from tfdist_launch.leader import Leader
from tfdist_launch.slots import GangPhase, Slot
from tfdist_trainer.reporter import Reporter

LOOP_TIMEOUT_SECONDS: Final = 1.0


class LeaderReporter(Reporter):
    """The reporter of a leader: adds the summary of the gang to a report when it is requested, and not before.

    The summary costs 20 ms of processor time with 10,000 members. It is computed in the thread of the event loop, which
    alone changes the state of the gang.
    """

    def __init__(self, first: ProgressReport, loop: asyncio.AbstractEventLoop, gang: Callable[[], GangReport]) -> None:
        super().__init__(first)
        self._loop, self._gang = loop, gang

    def serve(self) -> ProgressReport:
        """Return the current report with the summary of the gang; called in the threads of the report server."""
        future: Future[GangReport] = Future()
        # In the thread of the loop, which alone changes the state of the gang.
        self._loop.call_soon_threadsafe(lambda: future.set_result(self._gang()))
        try:
            gang = future.result(LOOP_TIMEOUT_SECONDS)
        except TimeoutError:
            gang = self._gang()  # the loop is blocked, so nothing changes the state meanwhile
        self.last_served = self.current.model_copy(update={"gang": gang})
        return self.last_served


def replica_report(
    job: ReplicaJob, number: int, current: ProgressReport | None, previous: ProgressReport | None = None
) -> ProgressReport:
    """Return the progress report of this replica in round `number`.

    Args:
        job: the replica's job.
        number: the round, or -1 before the first.
        current: the report of the running training process; None before its first one.
        previous: the last report of an earlier process, whose progress is shown until `current` exists, unless no
            checkpoint restores it.
    """
    if current is None:
        # Without a checkpoint the next process begins at step 0: the old progress would be wrong.
        first = ProgressReport(role=job.role, index=job.index, attempt=job.attempt, phase=Phase.STARTING)
        is_restored = previous is not None and (job.checkpoint or previous.last_checkpoint)
        kept = previous if previous is not None and is_restored else first
        current = kept.model_copy(update={"phase": Phase.STARTING, "remaining_seconds": None})
    return current.model_copy(update={"round": max(number, 0)})


def gang_report(leader: Leader, now: float) -> GangReport:
    """Return a summary of the gang; O(members)."""
    phases = Counter(slot.report.phase for slot in leader.slots if slot.report is not None)
    return GangReport(
        members=[_member(slot) for slot in _notable(leader.slots)],
        size=len(leader.slots),
        alive=sum(map(_is_alive, leader.slots)),
        phases=dict(phases),
        failures=leader.history.failures,
        restarts=leader.restart_policy.restarts,
        round=leader.round,
        waiting_for=shorten(waiting_for(leader, now)),
    )


def waiting_for(leader: Leader, now: float) -> Iterator[str]:
    """Yield the conditions that the next round waits for, as text."""
    if leader.state in {GangPhase.RUNNING, GangPhase.OVER}:
        return
    for slot in leader.slots:
        if slot.link is None:
            yield f"{slot.name}: its launcher is not connected"
        elif slot.terminating:
            yield f"{slot.name}: its pod is terminating, and the launcher of its replacement is not connected"
        elif slot.active:
            yield f"{slot.name}: its training process is being stopped"
    if leader.not_before > now:
        yield f"the next round begins in {leader.not_before - now:.0f} s"


def shorten(waits: Iterator[str]) -> list[str]:
    """Return the first texts, and the number of the others."""
    shown = list(islice(waits, MAX_WAITING_FOR - 1))
    omitted = sum(1 for _ in waits)
    return [*shown, f"{omitted} more"] if omitted else shown


def _is_alive(slot: Slot) -> bool:
    return slot.link is not None and slot.active and (slot.heartbeat is None or slot.heartbeat.alive)


def _notable(slots: Sequence[Slot]) -> list[Slot]:
    """Return the members to describe, in order of rank: those that are not alive first, then the slowest."""
    # A small gang is shown whole.
    if len(slots) <= MAX_REPORTED_MEMBERS:
        return list(slots)

    def sort_key(item: tuple[int, Slot]) -> tuple[bool, int, float, int]:
        rank, slot = item
        report = slot.report
        step = report.step if report and report.step is not None else -1
        input_wait = report.input_wait_millis if report and report.input_wait_millis else 0.0
        return _is_alive(slot), step, -input_wait, rank

    chosen = heapq.nsmallest(MAX_REPORTED_MEMBERS, enumerate(slots), key=sort_key)
    return [slot for _, slot in sorted(chosen, key=lambda item: item[0])]


def _member(slot: Slot) -> MemberReport:
    report = slot.report
    return MemberReport(
        role=slot.member.role,
        index=slot.member.index,
        alive=_is_alive(slot),
        phase=report.phase if report else None,
        step=report.step if report else None,
        input_wait_millis=report.input_wait_millis if report else None,
    )
