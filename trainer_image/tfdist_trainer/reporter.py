"""The progress report of this replica: one immutable `ProgressReport`, replaced as a whole.

The training loop creates a new report and assigns it; the threads of the report server read the current one. There
is no lock between them, so a slow reader never delays a step and a stuck step never blocks a reader.
"""

import time
from typing import Any

from tfdist.contract import Phase, ReplicaJob
from tfdist.contract_reports import ProgressReport
from tfdist_trainer.heartbeat import HeartbeatWriter
from tfdist_trainer.remaining_time import RemainingTime


class Reporter:
    """Holds the current report of one replica."""

    def __init__(self, first: ProgressReport) -> None:
        self._current = first
        self.last_served: ProgressReport | None = None
        """The last report that was requested; None before the first request."""
        self._heartbeat: HeartbeatWriter | None = None
        self._remaining = RemainingTime()

    @property
    def current(self) -> ProgressReport:
        """The current report."""
        return self._current

    def serve(self) -> ProgressReport:
        """Return the current report for a request, and record it in `last_served`."""
        self.last_served = self._current
        return self.last_served

    def replace(self, report: ProgressReport) -> None:
        """Make `report` the current one."""
        # One assignment, so readers need no lock.
        self._current = report
        if self._heartbeat is not None:
            self._heartbeat.write(report)

    def update(self, **changes: Any) -> None:
        """Replace the fields named in `changes`; only the main thread may call this.

        A step, or a number of steps, changes the estimated remaining time.
        """
        report = self._current.model_copy(update=changes)
        if not {"step", "total_steps"}.isdisjoint(changes):
            estimate = self._remaining.observe(report, time.monotonic())
            report = report.model_copy(update={"remaining_seconds": estimate})
        self.replace(report)

    def attach(self, heartbeat: HeartbeatWriter | None) -> None:
        """Pass every further report to the launcher; None without a launcher."""
        self._heartbeat = heartbeat


def first_report(job: ReplicaJob, round_number: int) -> ProgressReport:
    """Return the report of a replica of `job` that has just started."""
    return ProgressReport(role=job.role, index=job.index, attempt=job.attempt, round=round_number, phase=Phase.STARTING)
