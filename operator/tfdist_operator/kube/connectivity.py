"""Whether the API server is reachable: distinguishes a dead watch from an outage of the API server."""

import time
from collections.abc import Callable


class Connectivity:
    """Tracks the responses to all requests except watches.

    A watch is dead when other requests have been answered for minutes while it is silent. The time counts from
    the end of the last outage: requests succeed before the watches are resumed, and a probe that fails then would
    restart every replica at the same moment.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing = True
        self._since = self._last = clock()

    def on_response(self) -> None:
        """Record a response."""
        self._last = self._clock()
        if self._failing:
            self._failing, self._since = False, self._last

    def on_failure(self) -> None:
        """Record a request without a response."""
        self._failing = True

    def reachable_seconds(self, since: float) -> float:
        """Return how long the API server has been reachable since a moment, in seconds."""
        return self._last - max(since, self._since)
