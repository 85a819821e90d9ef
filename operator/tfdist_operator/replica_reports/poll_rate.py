"""The intervals at which running jobs are polled, and at which their progress is written to the status.

Each job is polled every `poll_seconds`. With many running jobs the intervals grow, so that at most 40 reports are read
and 20 statuses are written per second, evenly spread: bursts would delay more important requests.
"""

from dataclasses import dataclass
from typing import Final

POLLED_PER_SECOND: Final = 40.0
"""Maximum number of reports read per second."""
WRITTEN_PER_SECOND: Final = 20.0
"""Maximum number of statuses with only changed counters written per second."""


@dataclass(slots=True)
class PollRate:
    """The minimum intervals of one job, `poll_seconds` and `write_seconds`, and `jobs`, the number of running jobs."""

    poll_seconds: float
    write_seconds: float
    jobs: int = 0

    def poll_interval_seconds(self) -> float:
        """Return the seconds between two polls of one job."""
        return max(self.poll_seconds, self.jobs / POLLED_PER_SECOND)

    def status_interval_seconds(self) -> float:
        """Return the minimum seconds between two writes of one job's counters."""
        return max(self.write_seconds, self.jobs / WRITTEN_PER_SECOND)

    def throttled_seconds(self, written_at: float, now: float) -> float:
        """Return the seconds until counters may be written, after a write at `written_at`; both times are monotonic."""
        return max(0.0, written_at + self.status_interval_seconds() - now)
