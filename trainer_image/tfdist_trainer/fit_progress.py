"""Steps of one call of `model.fit`, computed from what Keras passes to a callback; no Keras here.

A step is a batch. The count continues from the optimizer's, so that it is the same after a restart. The total is known
once the first batch begins: only then is it certain where training resumes, with `initial_epoch` as with
`BackupAndRestore`. Without a known number of batches it is known after the first epoch.
"""


class FitProgress:
    """Counts the steps of one call of `fit`."""

    def __init__(self, steps_per_epoch: int | None, epochs: int | None) -> None:
        self.step: int | None = None
        """Finished steps; None before the first epoch."""
        self.total: int | None = None
        """Steps at the end of `fit`; None while unknown."""
        self._steps_per_epoch = steps_per_epoch or None
        self._batches_per_epoch = self._steps_per_epoch
        self._epochs = epochs
        self._epoch = 0
        self._epoch_start = 0
        self._is_new_epoch = False
        self._is_counted = True
        """Whether `step` includes the batches before the first one of this `fit` in its epoch."""

    def begin_epoch(self, epoch: int, iterations: int | None) -> None:
        """Begin `epoch`, from 0; `iterations` are the optimizer's, None if unknown."""
        if self.step is None:
            # A GAN may train with optimizers of its own: the one that it is compiled with has 0 after a restart, too.
            self._is_counted = bool(iterations) or epoch == 0
            self.step = iterations or epoch * (self._steps_per_epoch or 0)
        self._epoch, self._epoch_start, self._is_new_epoch = epoch, self.step, True

    def begin_batch(self, batch: int) -> bool:
        """Begin the batch with this index in its epoch, and return whether it is the first one of `fit` in this epoch.

        Its index is not 0 if training resumes within an epoch.
        """
        if not self._is_new_epoch or self.step is None:
            return False
        if not self._is_counted:
            self.step, self._is_counted = self.step + batch, True
        self._epoch_start, self._is_new_epoch = self.step - batch, False
        self._update_total()
        return True

    def end_batch(self, batch: int) -> None:
        """End the batch with this index in its epoch; it may be the last one of several in one execution.

        Keras may end batches in threads, not always in order.
        """
        in_epoch = batch + 1 if self._steps_per_epoch is None else min(batch + 1, self._steps_per_epoch)
        self.step = max(self._epoch_start + in_epoch, self.step or 0)

    def end_epoch(self) -> None:
        """End the epoch; further epochs are as long as this one if Keras does not know their length."""
        if self.step is None:
            return
        if self._steps_per_epoch is None:
            self._batches_per_epoch = self.step - self._epoch_start
        self._epoch, self._epoch_start = self._epoch + 1, self.step
        self._update_total()

    def end(self, iterations: int | None) -> None:
        """End `fit`, which may have stopped early: no further step follows."""
        if self.step is None:
            self.step = iterations
        self.total = self.step

    def _update_total(self) -> None:
        if self._batches_per_epoch is not None and self._epochs is not None:
            self.total = self._epoch_start + self._batches_per_epoch * max(self._epochs - self._epoch, 0)
