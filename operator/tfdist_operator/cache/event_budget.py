"""Rate limit of the events of one job that its pods report, such as restarts: a burst, then one at intervals.

Same rates as client-go's `EventSourceObjectSpamFilter` (tools/record/events_cache.go): 25 at once, then one
in five minutes. A pod can report false failures with each poll, and every event is a request to the API server and an
object in etcd.
"""

from dataclasses import dataclass
from typing import Final

BURST: Final = 25
REFILL_SECONDS: Final = 300.0


@dataclass(slots=True)
class EventBudget:
    """A token bucket; times are on the monotonic clock."""

    left: float = float(BURST)
    at: float | None = None

    def spend(self, now: float) -> bool:
        """Take one token; return whether one was available."""
        if self.at is not None:
            self.left = min(float(BURST), self.left + (now - self.at) / REFILL_SECONDS)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True
