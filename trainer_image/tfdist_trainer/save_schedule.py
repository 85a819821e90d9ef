"""When a checkpoint is due: by steps, by time, or at the end of each epoch if neither is set."""

import time
from collections.abc import Callable

from tfdist.contract import CheckpointSettings
from tfdist_trainer.steps_per_execution import MAX_STEPS_PER_EXECUTION


class SaveSchedule:
    """Decides when to save.

    Args:
        settings: `checkpoint.everySteps` and `checkpoint.everySeconds` of the job.
        clock: a monotonic clock in seconds.
    """

    def __init__(self, settings: CheckpointSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._saved_at = clock()
        self._saved_step = 0

    @property
    def by_steps(self) -> bool:
        """Whether a checkpoint is due after a number of steps."""
        return self._settings.every_steps is not None

    @property
    def by_epoch(self) -> bool:
        """Whether a checkpoint is due at the end of each epoch."""
        return not self.by_steps and self._settings.every_seconds is None

    def steps_left(self, step: int) -> int:
        """Return how many steps may follow `step` before one that must be saved."""
        every = self._settings.every_steps
        return every - step % every if every else MAX_STEPS_PER_EXECUTION

    def is_due(self, step: int, *, epoch_ended: bool) -> bool:
        """Return whether to save now, after `step` steps; a multiple of `everySteps` may have passed within a call."""
        every_steps, every_seconds = self._settings.every_steps, self._settings.every_seconds
        if self.by_epoch:
            return epoch_ended
        # Not `step % every_steps`: a call of several steps may pass the multiple.
        if every_steps and step // every_steps > self._saved_step // every_steps:
            return True
        return every_seconds is not None and self._clock() - self._saved_at >= every_seconds

    def record_save(self, step: int) -> None:
        """Record that there is a checkpoint of this `step` now."""
        self._saved_at, self._saved_step = self._clock(), step
