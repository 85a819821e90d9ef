"""What this replica tells while it runs: one immutable `ProgressReport`, swapped as a whole.

The training loop makes a new report and assigns it; the server's threads read whichever is current. No lock
is held across the two, so that a slow reader never delays a step and a stuck step never blocks a reader.
"""

import datetime as dt
from typing import Any

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist_trainer.environment import Member
from tfdist_trainer.heartbeat import Heart


class Reporter:
    """Holds the current report of one replica."""

    def __init__(self, first: ProgressReport) -> None:
        self._current = first
        self.told: ProgressReport | None = None
        """What was last told to somebody who asked; None while nobody has."""
        self._heart: Heart | None = None

    @property
    def current(self) -> ProgressReport:
        """The report as of now."""
        return self._current

    def answer(self) -> ProgressReport:
        """Return the report for somebody who asks."""
        self.told = self._current
        return self.told

    def replace(self, report: ProgressReport) -> None:
        """Make `report` the current one."""
        self._current = report
        if self._heart is not None:
            self._heart.tell(report)

    def update(self, **changes: Any) -> None:
        """Replace the fields named in `changes`; only the main thread calls this."""
        self.replace(self._current.model_copy(update=changes))

    def tell_to(self, heart: Heart | None) -> None:
        """Tell every report from now on to the launcher, where there is one."""
        self._heart = heart


def first_report(member: Member) -> ProgressReport:
    """Return the report of a replica that has just started."""
    job = member.job
    return ProgressReport(role=job.role, index=job.index, attempt=job.attempt, round=member.round, phase=Phase.STARTING)


def now_text() -> str:
    """Return the present time in UTC as RFC 3339 with milliseconds."""
    text = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
