"""Calls `model.fit` with `Progress` in ways that scripts do, and prints the reports by name of the way, as JSON.

Argument: an empty folder. The variable `TF_USE_LEGACY_KERAS` chooses the Keras.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

import tfdist_trainer
from tfdist_trainer.keras import progress
from tfdist_trainer.script import current_report

[_cpu] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(_cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras: Any = tf.keras
X = np.linspace(-1, 1, 256).reshape(64, 4).astype("float32")
Y = keras.utils.to_categorical(np.arange(64) % 3)
Reports = list[dict[str, Any]]


class Observer(keras.callbacks.Callback):  # type: ignore[misc]
    """Records the report of the script whenever it may have changed."""

    def __init__(self, interrupt_at: int | None = None) -> None:
        super().__init__()
        self.reports: Reports = []
        self._interrupt_at = interrupt_at

    def _record(self, hook: str) -> None:
        fields = {"step", "total_steps", "epoch", "metrics", "phase"}
        self.reports.append({"hook": hook} | current_report().model_dump(mode="json", include=fields))

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  as Keras calls it
        self._record("batch begin")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._record("batch end")
        if current_report().step == self._interrupt_at:
            raise KeyboardInterrupt

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._record("epoch end")

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        self._record("train end")


def model(**settings: Any) -> Any:
    result = keras.Sequential([keras.layers.Input([4]), keras.layers.Dense(3, activation="softmax")])
    result.compile("sgd", "categorical_crossentropy", **settings)
    return result


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


def fit(keras_model: Any, data: Any = None, *before: Any, interrupt_at: int | None = None, **settings: Any) -> Reports:
    """Return the reports of one `fit` on 8 batches an epoch; `before` are callbacks that come first."""
    observer = Observer(interrupt_at)
    callbacks = [tfdist_trainer.keras.Progress(every_seconds=0), *before, observer]
    try:
        keras_model.fit(batches() if data is None else data, callbacks=callbacks, verbose=0, **settings)
    except KeyboardInterrupt:
        observer.reports.append({"hook": "interrupted"})
    return observer.reports


def mirrored() -> Reports:
    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        trained = model(metrics=["accuracy"])
    return fit(trained, epochs=2)


def resumed_by_initial_epoch() -> Reports:
    resumed = model()
    fit(resumed, epochs=3)
    return fit(resumed, initial_epoch=3, epochs=6)


def resumed_by_backup(save_freq: Any = "epoch", interrupt_at: int = 20) -> Reports:
    folder = Path(sys.argv[1], f"backup-{save_freq}")

    def attempt(**settings: Any) -> Reports:
        backup = keras.callbacks.BackupAndRestore(str(folder), save_freq=save_freq)
        return fit(model(), None, backup, epochs=6, **settings)

    attempt(interrupt_at=interrupt_at)
    return attempt()


def twice_in_one_process() -> Reports:
    trained = model()
    return fit(trained, epochs=2) + fit(trained, epochs=1)


def unknown_length() -> Reports:
    def examples() -> Iterator[tuple[Any, Any]]:
        yield from zip(X, Y, strict=True)

    signature = (tf.TensorSpec([4]), tf.TensorSpec([3]))
    return fit(model(), tf.data.Dataset.from_generator(examples, output_signature=signature).batch(8), epochs=3)


def several_steps_per_execution() -> Reports:
    return fit(model(steps_per_execution=4), epochs=2)


def stopped_early() -> Reports:
    stop: Any = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, _: setattr(stop.model, "stop_training", epoch == 1)
    )
    return fit(model(), None, stop, epochs=5)


def vector_metric() -> Reports:
    return fit(model(metrics=["accuracy", keras.metrics.F1Score(average=None)]), epochs=1)


def failing_callback() -> Reports:
    with mock.patch.object(progress, "report", None):
        return fit(model(), epochs=1)


WAYS: list[Callable[[], Reports]] = [
    mirrored,
    resumed_by_initial_epoch,
    resumed_by_backup,
    twice_in_one_process,
    unknown_length,
    several_steps_per_execution,
    stopped_early,
    vector_metric,
    failing_callback,
]

if __name__ == "__main__":
    reports = {way.__name__: way() for way in WAYS}
    reports["resumed_within_an_epoch"] = resumed_by_backup(save_freq=4, interrupt_at=23)
    print(json.dumps(reports))
