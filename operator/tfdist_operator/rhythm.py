"""How often running jobs are asked how far they are, and how often that is written.

A few jobs are followed as closely as the installation wants. Thousands share what all may cost: each is asked and
written less often, and evenly spread, so that no burst delays what matters more.
"""

from dataclasses import dataclass
from typing import Final

ASKED_PER_SECOND: Final = 40.0
"""Reports that are read in a second at most."""
WRITTEN_PER_SECOND: Final = 20.0
"""Statuses in which only counters moved that are written in a second at most."""


@dataclass(slots=True)
class Rhythm:
    """`ask_seconds` and `write_seconds` are the shortest times between two of one job; `jobs` is how many run."""

    ask_seconds: float
    write_seconds: float
    jobs: int = 0

    def ask_every(self) -> float:
        """Return the seconds between two questions to one job."""
        return max(self.ask_seconds, self.jobs / ASKED_PER_SECOND)

    def write_every(self) -> float:
        """Return the least seconds between two writes of one job's counters."""
        return max(self.write_seconds, self.jobs / WRITTEN_PER_SECOND)
