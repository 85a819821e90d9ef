"""`tfdist_trainer.keras.Progress()`: a callback that reports the progress of `model.fit`, of Keras 3 or `tf_keras`.

It uses the Keras that TensorFlow uses: `tf_keras` where `TF_USE_LEGACY_KERAS=1` is set, else Keras 3.
"""

import os
import time
from typing import Any

from tfdist_trainer.script import report


def Progress(every_seconds: float = 0.5) -> Any:  # noqa: N802  used like a class
    """Return a callback for `model.fit(callbacks=[...])` that reports step, epoch and metrics.

    Args:
        every_seconds: minimum time between two reports within an epoch; the end of each epoch is always reported.
    """

    class ProgressCallback(_callbacks().Callback):  # type: ignore[misc]
        """Counts batches, starting at the iterations of the optimizer."""

        def __init__(self) -> None:
            super().__init__()
            self.step = 0
            self.reported_at = 0.0

        def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002  as Keras calls it
            self.step = int(self.model.optimizer.iterations)
            steps, epochs = self.params.get("steps"), self.params.get("epochs")
            report(step=self.step, total_steps=self.step + steps * epochs if steps and epochs else None)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
            self.step += 1
            if time.monotonic() - self.reported_at >= every_seconds:
                self.reported_at = time.monotonic()
                report(step=self.step, metrics=_numbers(logs))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            report(step=self.step, epoch=epoch + 1, metrics=_numbers(logs))

        def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
            report(phase="evaluating")

        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
            report(step=self.step, phase="finished")

    return ProgressCallback()


def _callbacks() -> Any:
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in {"1", "true"}:
        import tf_keras  # noqa: PLC0415  only one of the two is wanted

        return tf_keras.callbacks
    import keras  # noqa: PLC0415

    return keras.callbacks


def _numbers(logs: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in (logs or {}).items()}
