"""How many steps to take between two looks at the outside world, and what the gang decides at each look.

Steps run in chunks inside one `tf.function`. Between chunks the members agree: how long the next chunk is,
whether to save, whether to stop. The chief proposes, any member may ask to stop, and all follow the sum.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tfdist.contract import CheckpointSettings
from tfdist_trainer.strategies.gang import Gang

CHUNK_SECONDS: Final = 0.5
"""Duration of a chunk to aim at: a look costs a few milliseconds, and a notice should not wait long."""

GROWTH: Final = 8
"""Largest factor between one chunk and the next; the first, of one step, includes compilation."""

MAX_CHUNK: Final = 2000


class Pace:
    """Proposes chunk lengths from measured durations."""

    def __init__(self) -> None:
        self._steps = 1
        self._chunks = 0

    @property
    def steps(self) -> int:
        """The proposed number of steps of the next chunk."""
        return self._steps

    def measured(self, steps: int, seconds: float) -> None:
        """Learn that a chunk of `steps` took `seconds`."""
        self._chunks += 1
        if self._chunks == 1:
            return  # compilation
        wanted = round(steps * CHUNK_SECONDS / max(seconds, 1e-6))
        self._steps = max(1, min(wanted, self._steps * GROWTH, MAX_CHUNK))


@dataclass(frozen=True, slots=True)
class Decision:
    """What all members do next."""

    steps: int
    save: bool = False
    stop: bool = False
    compiled: bool = False
    """Whether XLA compiles these steps."""
    enough: bool = False
    """Whether training ends here, before its last step."""


def decide(gang: Gang, wish: Decision) -> Decision:
    """Return the gang's decision from each member's wish; a collective.

    All of the chief's wish counts, and anybody's `stop`.
    """
    chief = gang.member.is_chief
    mine = [wish.steps, wish.save, wish.compiled, wish.enough] if chief else [0, 0, 0, 0]
    steps, save, compiled, enough, stop = gang.share([*mine, wish.stop])
    return Decision(round(float(steps)), bool(save), bool(stop), bool(compiled), bool(enough))


class SaveSchedule:
    """When a checkpoint is due, by steps or by time. With neither set it is due at the end of each epoch."""

    def __init__(self, settings: CheckpointSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._saved_at = clock()

    def steps_left(self, step: int) -> int:
        """Return how many steps may follow `step` before one that must be saved."""
        every = self._settings.every_steps
        return every - step % every if every else MAX_CHUNK

    def is_due(self, step: int, *, epoch_ended: bool) -> bool:
        """Return whether to save now, after `step` steps."""
        every_steps, every_seconds = self._settings.every_steps, self._settings.every_seconds
        if every_steps is None and every_seconds is None:
            return epoch_ended
        if every_steps and step % every_steps == 0:
            return True
        return every_seconds is not None and self._clock() - self._saved_at >= every_seconds

    def saved(self) -> None:
        """Learn that a checkpoint has just been written."""
        self._saved_at = self._clock()
