"""`tfdist_trainer.keras.Progress()`: a callback that reports the progress of `model.fit`, of Keras 3 or `tf_keras`.

It uses the Keras that TensorFlow uses: `tf_keras` if `TF_USE_LEGACY_KERAS=1` is set, else Keras 3.
"""

import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tfdist_trainer import log
from tfdist_trainer.fit_progress import FitProgress
from tfdist_trainer.scalars import count, finite_numbers
from tfdist_trainer.script import clear, evaluations, report

_VALIDATION: Final = "val_"
"""Prefix of metrics of the validation data."""

REPORT_LOCK: Final = threading.Lock()
"""Held by a hook: Keras 3 calls the ends of batches from threads, and there is one report in a process."""


def Progress(every_seconds: float = 0.5) -> Any:  # noqa: N802  used like a class
    """Return a callback for `model.fit(callbacks=[...])` that reports step, epoch and metrics.

    The callback never fails the script: an exception in it is logged once, and training continues.

    Args:
        every_seconds: minimum time between two reports within an epoch; the end of each epoch is always reported.
    """

    class ProgressCallback(ProgressHooks, _callbacks().Callback):  # type: ignore[misc]
        """The hooks as a callback of the Keras in use."""

    return ProgressCallback(every_seconds)


def _safe(hook: Callable[..., None]) -> Callable[..., None]:
    """Return the hook with exceptions logged instead of raised; the first one only."""

    @functools.wraps(hook)
    def call(self: "ProgressHooks", *args: Any, **kwargs: Any) -> None:
        try:
            # Keras 3 calls the ends of batches from threads, and the report is one.
            with REPORT_LOCK:
                hook(self, *args, **kwargs)
        except Exception as error:  # a report never fails a script
            if not self.has_failed:
                self.has_failed = True
                log.event("no-report", hook=hook.__name__, reason=f"{type(error).__name__}: {error}")

    return call


class ProgressHooks:
    """Reports from the hooks that Keras calls."""

    model: Any
    params: dict[str, Any]
    async_safe: Final = True
    """Keras 3 may call the ends of batches from threads, and training does not wait for the logs."""
    sees_blocks: Final = True
    """The last batch of several that ran in one call suffices."""
    examples_per_batch: int | None = None
    """Examples in a batch of all replicas; without it no throughput is reported."""
    validation_examples: int | None = None
    """Examples of the validation data."""

    def __init__(self, every_seconds: float) -> None:
        super().__init__()
        # Batches are reported at intervals: tf_keras need not convert the values of each batch, which waits for the
        # devices, and it rejects callbacks of batches under ParameterServerStrategy otherwise.
        self._supports_tf_logs = True
        self.has_failed = False
        self._every_seconds = every_seconds
        self._reported_at = 0.0
        self._measured_from: tuple[int, float] | None = None
        """Step and time that the throughput is measured from; None before the first report of a batch of `fit`."""
        self._fit = FitProgress(None, None)

    @_safe
    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002  as Keras calls it
        """Reset the state of an earlier `fit`. The step is not known: another callback may restore the model."""
        self._fit = FitProgress(count(self.params.get("steps")), count(self.params.get("epochs")))
        self._measured_from = None
        clear("total_steps", "epoch", "examples_per_second")

    @_safe
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Report the step at the beginning of the epoch."""
        self._fit.begin_epoch(epoch, self._iterations())
        report(step=self._fit.step, epoch=epoch)

    @_safe
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        """Report the total, which is known before the first batch of an epoch."""
        # Only now it is certain where training resumes, with `initial_epoch` as with `BackupAndRestore`.
        if self._fit.begin_batch(batch):
            report(step=self._fit.step, total_steps=self._fit.total)
            if self._measured_from is not None:  # exclude the time between two epochs, such as a validation
                self._measure()

    @_safe
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Report step, metrics and throughput, at intervals."""
        self._fit.end_batch(batch)
        if time.monotonic() - self._reported_at >= self._every_seconds:
            self._reported_at = time.monotonic()
            # Wrong metrics are worse than none; the end of the epoch has right ones.
            metrics = finite_numbers(logs) if self._has_batch_metrics() else None
            step, total = self._fit.step, self._fit.total
            report(step=step, total_steps=total, metrics=metrics, examples_per_second=self._measure())

    @_safe
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report the epoch, its metrics, and the evaluation on the validation data."""
        self._fit.end_epoch()
        metrics = finite_numbers(logs)
        report(step=self._fit.step, total_steps=self._fit.total, epoch=epoch + 1, metrics=metrics)
        validated = {name.removeprefix(_VALIDATION): n for name, n in metrics.items() if name.startswith(_VALIDATION)}
        if validated and self._fit.step is not None:
            evaluations().add(self._fit.step, validated, self.validation_examples)

    @_safe
    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        """Report that the model is being evaluated."""
        report(phase="evaluating")

    @_safe
    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Report the last step, which may come early."""
        self._fit.end(self._iterations())
        report(step=self._fit.step, total_steps=self._fit.total, phase="finished")

    def _measure(self) -> float | None:
        """Return the examples per second since the last call; None if unknown."""
        step, now = self._fit.step, time.monotonic()
        before, self._measured_from = self._measured_from, None if step is None else (step, now)
        if step is None or before is None or self.examples_per_batch is None or now <= before[1]:
            return None
        return (step - before[0]) * self.examples_per_batch / (now - before[1])

    def _iterations(self) -> int | None:
        """Return the batches that the optimizer has seen; None without one optimizer, as in some custom steps."""
        optimizer = getattr(self.model, "optimizer", None)
        iterations = count(getattr(optimizer, "iterations", None))
        # The optimizer counts updates, and a report counts batches.
        per_iteration = count(getattr(optimizer, "gradient_accumulation_steps", None)) or 1
        return None if iterations is None else iterations * per_iteration

    def _has_batch_metrics(self) -> bool:
        """Return whether the metrics of a batch are right: tf_keras adds up several replicas'.

        No division corrects them: some are sums, some the value of all replicas already. At the end of an epoch they
        are right.
        """
        strategy = getattr(self.model, "distribute_strategy", None)
        return not _is_legacy() or getattr(strategy, "num_replicas_in_sync", 1) == 1


def _is_legacy() -> bool:
    return os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in {"1", "true"}


def _callbacks() -> Any:
    if _is_legacy():
        import tf_keras  # noqa: PLC0415  only one of the two is imported

        return tf_keras.callbacks
    import keras  # noqa: PLC0415

    return keras.callbacks
