"""Exponential back-off with jitter, for every retry; restarts of gangs have their own (`tfdist.restarts.budget`)."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_MAX_DOUBLINGS: Final = 32


@dataclass(frozen=True, slots=True)
class Backoff(Iterable[float]):
    """Delays in seconds that double after each failure.

    Iteration yields delays without end.
    """

    first_seconds: float
    max_seconds: float
    jitter: float = 0.5
    """Random part of each delay, so that replicas and keys that failed together are not retried together."""

    def seconds(self, failures: int) -> float:
        """Return the delay after a number of consecutive failures, from 1 on."""
        # The number of doublings is bounded, since 2.0 ** 1024 raises an error: failures count for as long as an outage
        # lasts.
        longest = min(self.first_seconds * 2.0 ** min(failures - 1, _MAX_DOUBLINGS), self.max_seconds)
        return longest * random.uniform(1 - self.jitter, 1)  # noqa: S311  no secret

    def __iter__(self) -> Iterator[float]:
        # kopf iterates once for each request, and ends the operator when the delays end: there is no last one (ADR 10).
        failures = 0
        while True:
            failures += 1
            yield self.seconds(failures)


RECONNECT: Final = Backoff(0.25, 8.0)
"""Delays of lists, watches and the first requests to the API server."""
